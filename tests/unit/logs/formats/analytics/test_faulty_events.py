"""Events with a field missing or of another type, in every format of analytics services."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.settings import ReadSettings

TIME = "2024-03-01T10:00:00Z"
EVENTS: dict[str, list[dict[str, Any]]] = {
    "ga4": [
        {
            "event_name": "search",
            "event_timestamp": "1704067200000000",
            "user_pseudo_id": "u",
            "event_params": [{"key": "search_term", "value": {"string_value": "red"}}],
        }
    ],
    "matomo": [
        {
            "idVisit": 1,
            "visitorId": "u",
            "actionDetails": [
                {"type": "search", "siteSearchKeyword": "red", "timestamp": 1704067200},
                {"type": "action", "url": "https://shop.example/red", "timestamp": 1704067260},
            ],
        }
    ],
    "algolia": [
        {
            "url": "/1/indexes/shop/query",
            "query_body": json.dumps({"params": "query=red&userToken=u"}),
            "answer_code": "200",
            "timestamp": TIME,
            "inner_queries": [{"query_id": "a", "user_token": "u"}],
        },
        {"eventType": "click", "userToken": "u", "objectIDs": ["7"], "queryID": "a"},
    ],
    "elastic": [
        {
            "@timestamp": TIME,
            "event": {"action": "search"},
            "session": {"id": "s"},
            "search": {"query": "red"},
        }
    ],
    "ubi": [
        {"query_id": "a", "client_id": "u", "user_query": "red", "timestamp": TIME},
        {
            "action_name": "click",
            "query_id": "a",
            "timestamp": TIME,
            "event_attributes": {"object": {"object_id": "7"}},
        },
    ],
}
INSTEAD: tuple[Any, ...] = (None, 7, -1.5, True, "", "\0", "\ud800", [], [None], {}, {"a": [1]})


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))


def _changed(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every event with each of its fields missing, or something else in its place."""
    for event in events:
        for *above, last in _places(event):
            for value in ("missing", *INSTEAD):
                changed = copy.deepcopy(event)
                holder: Any = changed
                for key in above:
                    holder = holder[key]
                if value == "missing":
                    del holder[last]
                else:
                    holder[last] = value
                yield changed


@pytest.mark.parametrize("name", EVENTS)
def test_a_faulty_event_is_a_rejected_row_and_no_crash(name: str, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    faulty = list(_changed(EVENTS[name]))
    lines = [*EVENTS[name], *faulty, *EVENTS[name]]
    log.write_text("".join(json.dumps(event) + "\n" for event in lines))
    read = read_logs([log], ReadSettings(format=name, max_rejected=1), tmp_path / "work")
    assert read.rows_rejected > 0
    assert read.rows_accepted >= 2

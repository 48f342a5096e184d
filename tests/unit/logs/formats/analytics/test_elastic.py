import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.logs.formats.analytics import ElasticFormat, ElasticLayout
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import Sample
from nextquery.logs.reading.rows import ParsedRows, parse_lines
from nextquery.logs.settings import ReadSettings

SEARCH = {
    "@timestamp": "2023-05-16T12:00:00.500+02:00",
    "event": {"action": "search"},
    "session": {"id": "s1"},
    "user": {"id": "u1"},
    "search": {"query": "red shoes", "results": {"items": [{"document": {"id": "9"}}]}},
}
CLICK = SEARCH | {"event": {"action": "search_click"}, "document": {"id": "9", "index": "shop"}}


def parse(*objects: Any) -> ParsedRows:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in objects]
    lines = pl.DataFrame({"line": range(1, len(texts) + 1), "text": texts})
    return parse_lines(ElasticLayout(), lines)


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        nested = isinstance(inner, dict)
        found |= flat(inner, f"{prefix}{name}.") if nested else {prefix + name: inner}
    return found


def fields(parsed: ParsedRows) -> list[tuple[Any, ...]]:
    return parsed.accepted.select("user", "time", "query", "click").rows()


EXPECTED = ("u1", datetime(2023, 5, 16, 10, 0, 0, 500000), "red shoes")


@pytest.mark.parametrize(
    "search", [SEARCH, flat(SEARCH), {"_index": "i", "_source": SEARCH}, {"_source": flat(SEARCH)}]
)
def test_elastic_search_nested_dotted_or_exported(search: dict[str, Any]) -> None:
    assert fields(parse(search)) == [(*EXPECTED, None)]


def test_elastic_click_has_its_document_or_page() -> None:
    page = CLICK | {"document": {}, "page": {"url": {"original": "http://shop.example/9"}}}
    found = fields(parse(CLICK, page))
    assert found == [(*EXPECTED, "9"), (*EXPECTED, "http://shop.example/9")]


def test_elastic_session_stands_in_for_an_unknown_user() -> None:
    anonymous = {name: value for name, value in SEARCH.items() if name != "user"}
    assert fields(parse(anonymous))[0][0] == "s1"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (SEARCH | {"event": {"action": "pageview"}}, rejects.NOT_A_SEARCH),
        (SEARCH | {"event": {"action": "page_view"}}, rejects.NOT_A_SEARCH),
        (SEARCH | {"event": {}}, rejects.NO_ACTION),
        (SEARCH | {"search": {"query": ""}}, rejects.EMPTY_QUERY),
        (SEARCH | {"search": {"query": None}}, rejects.EMPTY_QUERY),
        (SEARCH | {"search": {"query": {"text": "red"}}}, rejects.EMPTY_QUERY),
        (SEARCH | {"search": {"query": "red\0shoes"}}, rejects.NUL_BYTE),
        (SEARCH | {"user": {}, "session": {}}, rejects.NO_USER),
        (SEARCH | {"@timestamp": None}, rejects.NO_TIME),
        (SEARCH | {"@timestamp": "today"}, "time not understood"),
        ('{"event": {"action": "sea', rejects.NOT_JSON),
        ("[1, 2]", rejects.NOT_JSON),
        ("null", rejects.NOT_JSON),
        ("red shoes", rejects.NOT_JSON),
        ("", rejects.EMPTY_LINE),
    ],
)
def test_every_fault_of_an_event_has_its_reason(event: Any, reason: str) -> None:
    parsed = parse(SEARCH, event, SEARCH)
    assert parsed.accepted["line"].to_list() == [1, 3]
    assert parsed.rejected.select("line", "reason").rows() == [(2, reason)]


def recognised(*objects: dict[str, Any], **choices: Any) -> bool:
    sample = Sample(Path("log"), tuple(map(json.dumps, objects)))
    return ElasticFormat().recognise(sample, ReadSettings(**choices)) is not None


def test_recognised_by_its_action_and_a_session_or_a_search() -> None:
    assert recognised(SEARCH)
    assert recognised(flat(SEARCH))
    assert not recognised({"event": {"action": "search"}})
    assert not recognised({"session": {"id": "s"}, "search": {"query": "red"}})
    assert not recognised(SEARCH, columns={"user": "a", "time": "b", "query": "c"})

"""Algolia's request logs: keystrokes are one search, clicks find theirs."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import polars as pl
import pytest

from nextquery.logs.reading import rejects
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.settings import ReadSettings

START = datetime(2024, 3, 1, 10)


def request(
    query: str, second: float, user: str = "anonymous-7", query_id: str = ""
) -> dict[str, Any]:
    """A logged search of two indices at once, as the API returns it."""
    params = urlencode({"query": query, "hitsPerPage": 20, "clickAnalytics": "true"})
    body = {"requests": [{"indexName": "products", "params": params}]}
    time = START + timedelta(seconds=second)
    return {
        "timestamp": time.isoformat(timespec="milliseconds") + "Z",
        "method": "POST",
        "answer_code": "200",
        "query_body": json.dumps(body),
        "answer": '{"results":[{"hits":[],"nbHits":0',
        "url": "/1/indexes/*/queries?x-algolia-agent=Algolia%20for%20JavaScript",
        "ip": "192.0.2.7",
        "query_headers": "User-Agent: Mozilla/5.0\nX-Algolia-API-Key: redacted",
        "sha1": "26c53bd7e38ca71f4741b71994cd94a600b7ac68",
        "nb_api_calls": "1",
        "processing_time_ms": "2",
        "index": "products",
        "query_nb_hits": "12",
        "inner_queries": [
            {
                "index_name": "products",
                "user_token": user,
                "query_id": query_id or None,
                "offset": 0,
            }
        ],
    }


def click(query_id: str | None, *items: str, kind: str = "click") -> dict[str, Any]:
    event = {
        "eventType": kind,
        "eventName": "Product Clicked",
        "index": "products",
        "userToken": "anonymous-7",
        "timestamp": 1709287212000,
        "objectIDs": list(items),
        "positions": [1],
    }
    return event if query_id is None else event | {"queryID": query_id}


def read(tmp_path: Path, *files: Any) -> tuple[ReadResult, list[tuple[Any, ...]]]:
    paths = []
    for number, content in enumerate(files):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(content))
    result = read_logs(paths, ReadSettings(), tmp_path / "work")
    rows = pl.read_parquet(tmp_path / "work" / "rows").sort("row")
    return result, rows.select("user", "query", "click").rows()


def typed(*queries: str, pause: float = 0.4, start: float = 0) -> list[dict[str, Any]]:
    return [request(query, start + number * pause) for number, query in enumerate(queries)]


def test_keystrokes_are_one_search(tmp_path: Path) -> None:
    logs = typed("r", "re", "red", "Red s", "red shoes", "red shoe", "red ", "red b", "red boots")
    result, rows = read(tmp_path, {"logs": logs})
    assert [query for _, query, _ in rows] == ["red shoes", "red boots"]
    assert result.format == "algolia"
    assert result.reasons == {rejects.TYPED_FURTHER: 7}
    assert (result.rows_read, result.rows_accepted) == (9, 2)


def test_what_was_typed_half_a_minute_later_is_a_search_of_its_own(tmp_path: Path) -> None:
    _, rows = read(tmp_path, {"logs": typed("red", "red shoes", pause=31)})
    assert [query for _, query, _ in rows] == ["red", "red shoes"]


def test_other_visitors_do_not_type_further(tmp_path: Path) -> None:
    _, rows = read(tmp_path, {"logs": [request("red", 0, "a"), request("red shoes", 1, "b")]})
    assert [(user, query) for user, query, _ in rows] == [("a", "red"), ("b", "red shoes")]


def test_clicks_follow_their_search_and_keep_it(tmp_path: Path) -> None:
    logs = [request("red", 0, query_id="q1"), request("red shoes", 9, query_id="q2")]
    events = [click("q2", "x", "y"), click("q1", "z"), click("gone", "x"), click(None, "x")]
    result, rows = read(tmp_path, {"logs": logs}, [*events, click("q2", "x", kind="view")])
    assert [(query, clicked) for _, query, clicked in rows] == [
        ("red", None),
        ("red", "z"),
        ("red shoes", None),
        ("red shoes", "x"),
        ("red shoes", "y"),
    ]
    assert result.reasons == {
        rejects.UNKNOWN_QUERY: 1,
        rejects.NO_QUERY_ID: 1,
        rejects.NOT_A_CLICK: 1,
    }


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ('{"query": "caf\\u00e9 \\"noir\\"", "hitsPerPage": 5}', 'café "noir"'),
        ('{"params": "hitsPerPage=5&query=red%20shoes&userToken=t"}', "red shoes"),
        ('{"requests":[{"indexName":"products","query":"red","facets":["bra', "red"),
    ],
)
def test_bodies_of_every_client_even_if_cut(tmp_path: Path, body: str, query: str) -> None:
    log = request("", 0) | {"query_body": body, "inner_queries": None}
    result, rows = read(tmp_path, [log])
    assert [text for _, text, _ in rows] == [query]
    assert rows[0][0] in ("192.0.2.7", "t")
    assert result.rows_rejected == 0


def test_other_requests_and_failures_are_set_aside(tmp_path: Path) -> None:
    others = [
        request("red", 0) | {"url": "/1/indexes/products/batch"},
        request("red", 1) | {"answer_code": "429"},
        request("red", 2) | {"query_body": ""},
        request("", 3),
    ]
    result, rows = read(tmp_path, {"logs": [*others, request("hat", 60)]})
    assert [query for _, query, _ in rows] == ["hat"]
    assert result.reasons == {rejects.NOT_A_SEARCH: 4}


def test_a_token_in_the_body_names_the_visitor(tmp_path: Path) -> None:
    log = tmp_path / "logs.json"
    found = []
    for user in ("u1", "u2"):
        asked = request("red shoes", 0)
        body = {"requests": [{"indexName": "p", "query": "red shoes"}], "userToken": user}
        found.append(asked | {"query_body": json.dumps(body), "inner_queries": []})
    log.write_text(json.dumps({"logs": found}))
    read_logs([log], ReadSettings(), tmp_path / "work")
    rows = pl.read_parquet(tmp_path / "work" / "rows" / "*.parquet")
    assert sorted(rows["user"]) == ["u1", "u2"]

"""Exports of analytics services: Algolia, Elastic, GA4, Matomo, and reports that are not logs."""

import copy
import gzip
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from nextquery.errors import LogError
from nextquery.logs.formats.analytics import ElasticFormat, Ga4Format, describe_report
from nextquery.logs.formats.detection import choose_format
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import Sample
from nextquery.logs.reading.read_logs import ReadResult
from nextquery.logs.reading.rows import ParsedRows
from nextquery.logs.settings import ReadSettings

from .conftest import parse_texts, read_rows

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


def read(tmp_path: Path, *files: Any, **choices: Any) -> tuple[ReadResult, list[tuple[Any, ...]]]:
    paths = []
    for number, content in enumerate(files):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(content))
    result, rows = read_rows(paths, tmp_path / "work", **choices)
    return result, rows.select("user", "query", "click").rows()


def test_keystrokes_are_one_search(tmp_path: Path) -> None:
    texts = ("r", "re", "red", "Red s", "red shoes", "red shoe", "red ", "red b", "red boots")
    logs = [request(text, 0.4 * number) for number, text in enumerate(texts)]
    result, rows = read(tmp_path, {"logs": logs})
    assert [query for _, query, _ in rows] == ["red shoes", "red boots"]
    assert result.format == "algolia"
    assert result.reasons == {rejects.TYPED_FURTHER: 7}
    assert (result.rows_read, result.rows_accepted) == (9, 2)


@pytest.mark.parametrize(
    ("users", "pause", "queries"),
    [
        (("a", "a"), 30, ["red shoes"]),
        (("a", "a"), 31, ["red", "red shoes"]),
        (("a", "b"), 1, ["red", "red shoes"]),
    ],
)
def test_a_visitor_types_further_for_half_a_minute(
    tmp_path: Path, users: tuple[str, str], pause: float, queries: list[str]
) -> None:
    logs = [request("red", 0, users[0]), request("red shoes", pause, users[1])]
    _, rows = read(tmp_path, {"logs": logs})
    assert [query for _, query, _ in rows] == queries


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


def test_other_requests_and_failures_are_excluded(tmp_path: Path) -> None:
    rest = [
        request("red", 0) | {"url": "/1/indexes/products/batch"},
        request("red", 1) | {"answer_code": "429"},
        request("red", 2) | {"query_body": ""},
        request("", 3),
    ]
    result, rows = read(tmp_path, {"logs": [*rest, request("hat", 60)]})
    assert [query for _, query, _ in rows] == ["hat"]
    assert result.reasons == {rejects.NOT_A_SEARCH: 4}


def test_a_token_in_the_body_names_the_visitor(tmp_path: Path) -> None:
    logs = []
    for user in ("u1", "u2"):
        body = {"requests": [{"indexName": "p", "query": "red shoes"}], "userToken": user}
        query = {"query_body": json.dumps(body), "inner_queries": []}
        logs.append(request("red shoes", 0) | query)
    _, rows = read(tmp_path, {"logs": logs})
    assert sorted(user for user, *_ in rows) == ["u1", "u2"]


SEARCH = {
    "@timestamp": "2023-05-16T12:00:00.500+02:00",
    "event": {"action": "search"},
    "session": {"id": "s1"},
    "user": {"id": "u1"},
    "search": {"query": "red shoes", "results": {"items": [{"document": {"id": "9"}}]}},
}
CLICK = SEARCH | {"event": {"action": "search_click"}, "document": {"id": "9", "index": "shop"}}


def parse(*objects: Any) -> ParsedRows:
    return parse_texts(ElasticFormat(), *objects)


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, inner in value.items():
        nested = isinstance(inner, dict)
        result |= flat(inner, f"{prefix}{name}.") if nested else {prefix + name: inner}
    return result


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
    result = fields(parse(CLICK, page))
    assert result == [(*EXPECTED, "9"), (*EXPECTED, "http://shop.example/9")]


def test_elastic_sessions_replace_unknown_users() -> None:
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


def event(
    name: str, minute: int = 0, user: str | None = "2131450.1704067", **parameters: Any
) -> str:
    """A line of `events_20240101`, as `bq extract` writes it: numbers are texts."""
    listed = [
        {"key": "ga_session_id", "value": {"int_value": "1704067200"}},
        {"key": "page_location", "value": {"string_value": "https://shop.example/search?q=x"}},
        *({"key": key, "value": value} for key, value in parameters.items()),
    ]
    return json.dumps(
        {
            "event_date": "20240101",
            "event_timestamp": str(1704067200000000 + minute * 60_000_000 + 123_456),
            "event_name": name,
            "event_params": listed,
            "user_pseudo_id": user,
            "device": {"category": "mobile", "language": "de"},
            "platform": "WEB",
        }
    )


LINES = [
    event("view_search_results", search_term={"string_value": "rote schuhe"}),
    event("page_view", 1),
    event("view_search_results", 2, search_term={"int_value": "1984"}),
    event("search", 3, user="app", search_term={"string_value": "hut", "int_value": None}),
    event("view_search_results", 4),
    event("view_search_results", 5, user=None, search_term={"string_value": "blau"}),
    event("view_search_results", 6, search_term={"string_value": "\ud800"}),
    "[]",
]


def test_only_searches_become_rows() -> None:
    parsed = parse_texts(Ga4Format(), *LINES)
    assert parsed.accepted.select("line", "user", "query", "click").rows() == [
        (1, "2131450.1704067", "rote schuhe", None),
        (3, "2131450.1704067", "1984", None),
        (4, "app", "hut", None),
    ]
    assert parsed.accepted["time"][0] == datetime(2024, 1, 1, 0, 0, 0, 123_456)
    assert parsed.rejected.select("line", "reason").rows() == [
        (2, rejects.NOT_A_SEARCH),
        (5, rejects.EMPTY_QUERY),
        (6, rejects.NO_USER),
        (7, rejects.MALFORMED_TEXT),
        (8, rejects.NOT_JSON),
    ]


def test_ga4_is_detected_by_its_fields() -> None:
    sample = Sample(Path("events.json"), tuple(LINES))
    assert "as GA4 has them" in (Ga4Format().recognise(sample, ReadSettings()) or "")
    assert (
        Ga4Format().recognise(Sample(Path("x"), ('{"event_name": "x"}',)), ReadSettings()) is None
    )


def test_a_faulty_parameter_hides_no_other() -> None:
    good = {"key": "search_term", "value": {"string_value": "rote schuhe"}}
    values: tuple[Any, ...] = (None, "red", [], {}, {"a": {"b": 1}})
    faulty: list[Any] = [
        *({"value": {"string_value": "x"}}, {"key": "search_term"}, {"key": ["search_term"]}),
        *({"key": "search_term", "value": bad} for bad in values),
        *(None, 7, "search_term", ["search_term"], {}),
    ]
    lines: list[dict[str, Any]] = []
    for bad in faulty:
        result = json.loads(event("search"))
        lines += [{**result, "event_params": value} for value in ([bad, good], [bad], bad)]
    parsed = parse_texts(Ga4Format(), *lines)
    assert parsed.accepted["query"].to_list() == ["rote schuhe"] * len(faulty)
    assert set(parsed.rejected["reason"]) == {rejects.EMPTY_QUERY}


def action(kind: str, second: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "timestamp": 1709287200 + second,
        "serverTimePretty": "Mar 1, 2024 10:00:00",
        "pageTitle": None,
        "url": None,
        "icon": None,
        **fields,
    }


def visit(visitor: str, *actions: dict[str, Any], user: str | None = None) -> dict[str, Any]:
    return {
        "idSite": "1",
        "idVisit": "4711",
        "visitIp": "192.0.2.0",
        "visitorId": visitor,
        "userId": user,
        "actionDetails": list(actions),
        "searches": 1,
        "countryCode": "fr",
    }


VISITS = [
    visit(
        "a1b2c3d4e5f60718",
        action("action", 0, url="https://shop.example/"),
        action("search", 5, siteSearchKeyword="chaussures rouges", siteSearchCategory=None),
        action("search", 9, siteSearchKeyword="chaussures"),
        action("action", 20, url="https://shop.example/p/7"),
        action("action", 40, url="https://shop.example/p/8"),
    ),
    visit("ffff", action("search", 60, siteSearchKeyword="été"), user="marie"),
    visit("0000", action("event", 70, eventCategory="cart")),
]


@pytest.mark.parametrize("shape", ["a list", "objects on lines", "compressed", "with spaces"])
def test_searches_and_what_was_opened_after_them(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "visits.json"
    text = json.dumps(VISITS, indent=2 if shape == "with spaces" else None)
    if shape == "objects on lines":
        text = "".join(json.dumps(item) + "\n" for item in VISITS)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if shape == "compressed" else data)
    result, rows = read_rows([path], tmp_path / "work")
    assert result.format == "matomo"
    assert result.reason == "it is JSON with visits and their actionDetails"
    assert rows.select("user", "query", "click").rows() == [
        ("a1b2c3d4e5f60718", "chaussures rouges", None),
        ("a1b2c3d4e5f60718", "chaussures", None),
        ("a1b2c3d4e5f60718", "chaussures", "https://shop.example/p/7"),
        ("marie", "été", None),
    ]
    assert rows["time"][0] == datetime(2024, 3, 1, 10, 0, 5)
    assert result.reasons == {rejects.NOT_A_SEARCH: 3}


def test_odd_visits_are_rejected_not_fatal(tmp_path: Path) -> None:
    odd = [
        visit("v", action("search", 0, siteSearchKeyword="half \ud800")),
        visit("v", action("search", 0, siteSearchKeyword="nul \0")),
        visit("", action("search", 0, siteSearchKeyword="nobody")),
        {"idVisit": 1, "actionDetails": "none"},
        {"idVisit": 1, "actionDetails": [7]},
    ]
    result, _ = read(tmp_path, odd + VISITS, max_rejected=1.0)
    assert result.rows_accepted == 4
    assert result.reasons == {
        rejects.NOT_A_SEARCH: 5,
        rejects.MALFORMED_TEXT: 1,
        rejects.NUL_BYTE: 1,
        rejects.NO_USER: 1,
    }


UBI_QUERY = {"query_id": "a", "client_id": "u", "user_query": "red"}
UBI_CLICK = {"action_name": "click", "query_id": "a"}
TIME = {"timestamp": "2024-03-01T10:00:00Z"}
EVENTS: dict[str, list[dict[str, Any]]] = {
    "ga4": [json.loads(event("search", search_term={"string_value": "red"}))],
    "matomo": VISITS[:1],
    "algolia": [request("red", 0, query_id="a"), click("a", "7")],
    "elastic": [SEARCH],
    "ubi": [
        UBI_QUERY | TIME,
        UBI_CLICK | TIME | {"event_attributes": {"object": {"object_id": "7"}}},
    ],
}
INSTEAD: tuple[Any, ...] = (None, 7, -1.5, True, "", "\0", "\ud800", [], [None], {}, {"a": [1]})


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))


def _changed(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every event with each of its fields missing, or something else in its place."""
    for event in events:
        for *above, last in _paths(event):
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
    result, _ = read_rows([log], tmp_path / "work", format=name, max_rejected=1)
    assert result.rows_rejected > 0
    assert result.rows_accepted >= 2


GA4 = """# ----------------------------------------
# Search terms
# Shop
# 20240101-20240131
# ----------------------------------------
Search term,Event count,Total users,Event count per active user
red shoes,120,96,1.25"""
MATOMO = "label,nb_visits,nb_hits,sum_time_spent,nb_pages_per_search,exit_rate\nred shoes,96,120"
ALGOLIA = '{"searches":[{"search":"red shoes","count":120,"nbHits":14}]}'
CONSOLE = "Top queries,Clicks,Impressions,CTR,Position\nred shoes,12,120,10%,3.1"


@pytest.mark.parametrize(
    ("text", "service", "instead"),
    [
        (GA4, "GA4", "format ga4"),
        (MATOMO, "Matomo", "Live.getLastVisitsDetails"),
        (ALGOLIA, "Algolia", "GET /1/logs"),
        (CONSOLE, "the Google Search Console", "the site's own search"),
    ],
)
def test_counts_are_not_log(text: str, service: str, instead: str) -> None:
    sample = Sample(Path("report.csv"), tuple(text.split("\n")))
    with pytest.raises(LogError, match=rf"report.csv: a report of {service} that counts") as error:
        choose_format([sample], ReadSettings())
    assert instead in str(error.value)


def test_a_log_is_not_a_report() -> None:
    assert describe_report(Sample(Path("log"), ("user,time,query", "1,2,search term"))) is None

import json
from datetime import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.logs.formats.ndjson import ELASTIC, JsonLayout
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.rows import Layout, Parsed, parse_lines

PLAIN = JsonLayout(user="who", time="at", query="search.text", click="clicked")
SEARCH = {
    "@timestamp": "2023-05-16T12:00:00.500+02:00",
    "event": {"action": "search"},
    "session": {"id": "s1"},
    "user": {"id": "u1"},
    "search": {"query": "red shoes", "results": {"items": [{"document": {"id": "9"}}]}},
}
CLICK = SEARCH | {"event": {"action": "search_click"}, "document": {"id": "9", "index": "shop"}}


def parse(layout: Layout, *objects: Any) -> Parsed:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in objects]
    return parse_lines(layout, pl.DataFrame({"line": range(1, len(texts) + 1), "text": texts}))


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        nested = isinstance(inner, dict)
        found |= flat(inner, f"{prefix}{name}.") if nested else {prefix + name: inner}
    return found


def fields(parsed: Parsed) -> list[tuple[Any, ...]]:
    return parsed.accepted.select("user", "time", "query", "click").rows()


EXPECTED = ("u1", datetime(2023, 5, 16, 10, 0, 0, 500000), "red shoes")


@pytest.mark.parametrize(
    "search", [SEARCH, flat(SEARCH), {"_index": "i", "_source": SEARCH}, {"_source": flat(SEARCH)}]
)
def test_elastic_search_nested_dotted_or_exported(search: dict[str, Any]) -> None:
    assert fields(parse(ELASTIC, search)) == [(*EXPECTED, None)]


def test_elastic_click_has_its_document_or_page() -> None:
    page = CLICK | {"document": {}, "page": {"url": {"original": "http://shop.example/9"}}}
    found = fields(parse(ELASTIC, CLICK, page))
    assert found == [(*EXPECTED, "9"), (*EXPECTED, "http://shop.example/9")]


def test_elastic_session_stands_in_for_an_unknown_user() -> None:
    anonymous = {name: value for name, value in SEARCH.items() if name != "user"}
    assert fields(parse(ELASTIC, anonymous))[0][0] == "s1"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (SEARCH | {"event": {"action": "pageview"}}, rejected_rows.NOT_A_SEARCH),
        (SEARCH | {"event": {"action": "page_view"}}, rejected_rows.NOT_A_SEARCH),
        (SEARCH | {"event": {}}, rejected_rows.NO_ACTION),
        (SEARCH | {"search": {"query": ""}}, rejected_rows.EMPTY_QUERY),
        (SEARCH | {"search": {"query": None}}, rejected_rows.EMPTY_QUERY),
        (SEARCH | {"search": {"query": {"text": "red"}}}, rejected_rows.EMPTY_QUERY),
        (SEARCH | {"search": {"query": "red\0shoes"}}, rejected_rows.NUL_BYTE),
        (SEARCH | {"user": {}, "session": {}}, rejected_rows.NO_USER),
        (SEARCH | {"@timestamp": None}, rejected_rows.NO_TIME),
        (SEARCH | {"@timestamp": "today"}, "time not understood"),
        ('{"event": {"action": "sea', rejected_rows.NOT_JSON),
        ("[1, 2]", rejected_rows.NOT_JSON),
        ("null", rejected_rows.NOT_JSON),
        ("red shoes", rejected_rows.NOT_JSON),
        ("", rejected_rows.EMPTY_LINE),
    ],
)
def test_every_fault_of_an_event_has_its_reason(event: Any, reason: str) -> None:
    parsed = parse(ELASTIC, SEARCH, event, SEARCH)
    assert parsed.accepted["line"].to_list() == [1, 3]
    assert parsed.rejected.select("line", "reason").rows() == [(2, reason)]


def test_any_ndjson_by_paths() -> None:
    row = {"who": 17, "at": 1141197432, "search": {"text": 'say "é"'}, "clicked": "x", "more": []}
    assert fields(parse(PLAIN, row)) == [("17", datetime(2006, 3, 1, 7, 17, 12), 'say "é"', "x")]


def test_milliseconds_as_a_number() -> None:
    row = {"who": "a", "at": 1141197432250, "search.text": "red"}
    assert fields(parse(PLAIN, row))[0][1] == datetime(2006, 3, 1, 7, 17, 12, 250000)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["who", "at", "search", "text", "clicked", "_source"]), inner
        )
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.lists(VALUES.map(json.dumps) | st.text(max_size=10), max_size=8))
def test_every_line_is_accepted_or_rejected_once(texts: list[str]) -> None:
    parsed = parse(PLAIN, *[text.replace("\n", "") for text in texts])
    numbers = parsed.accepted["line"].to_list() + parsed.rejected["line"].to_list()
    assert sorted(numbers) == list(range(1, len(texts) + 1))
    assert parsed.rejected["reason"].null_count() == 0

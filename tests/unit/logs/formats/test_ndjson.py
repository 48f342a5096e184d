import json
from datetime import datetime
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.logs.formats.json import JsonLayout
from nextquery.logs.reading.rows import Layout, ParsedRows, parse_lines

PLAIN = JsonLayout(user="who", time="at", query="search.text", click="clicked")


def parse(layout: Layout, *objects: Any) -> ParsedRows:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in objects]
    return parse_lines(layout, pl.DataFrame({"line": range(1, len(texts) + 1), "text": texts}))


def fields(parsed: ParsedRows) -> list[tuple[Any, ...]]:
    return parsed.accepted.select("user", "time", "query", "click").rows()


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

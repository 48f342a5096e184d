"""GA4 events as BigQuery extracts them."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from nextquery.logs.formats.analytics import Ga4Format, Ga4Layout
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import Sample
from nextquery.logs.reading.rows import parse_lines
from nextquery.logs.settings import ReadSettings


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


def test_searches_are_rows_and_all_else_is_set_aside() -> None:
    lines = pl.DataFrame(
        {"line": range(1, len(LINES) + 1), "text": LINES}, {"line": pl.Int64, "text": pl.String}
    )
    parsed = parse_lines(Ga4Layout(), lines)
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


def test_it_is_told_by_its_fields() -> None:
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
    lines = []
    for bad in faulty:
        found = json.loads(event("search"))
        lines.append(json.dumps({**found, "event_params": [bad, good]}))
        lines.append(json.dumps({**found, "event_params": [bad]}))
        lines.append(json.dumps({**found, "event_params": bad}))
    frame = pl.DataFrame(
        {"line": range(1, len(lines) + 1), "text": lines}, {"line": pl.Int64, "text": pl.String}
    )
    parsed = parse_lines(Ga4Layout(), frame)
    assert parsed.accepted["query"].to_list() == ["rote schuhe"] * len(faulty)
    assert set(parsed.rejected["reason"]) == {rejects.EMPTY_QUERY}


def test_a_term_that_is_not_text_is_rejected_and_not_repaired() -> None:
    lines = [
        event("search", search_term={"string_value": "red\0shoes"}),
        event("search", search_term={"string_value": "red shoes"}),
    ]
    frame = pl.DataFrame({"line": [1, 2], "text": lines}, {"line": pl.Int64, "text": pl.String})
    parsed = parse_lines(Ga4Layout(), frame)
    assert parsed.accepted["line"].to_list() == [2]
    assert parsed.rejected["reason"].to_list() == [rejects.NUL_BYTE]

"""The rules of a row, one by one, with a layout that takes the whole line for the query."""

from dataclasses import dataclass

import polars as pl
import pytest

from nextquery.logs.reading import rejects
from nextquery.logs.reading.rows import (
    cast_to_text,
    decode_lines,
    describe_rejected,
    parse_lines,
    validate_rows,
)
from nextquery.logs.reading.times import USUAL


@dataclass(frozen=True)
class WholeLine:
    """The line is the query; user and time are given."""

    time_pattern: str = USUAL
    header_line: int = 1

    def is_header(self, text: pl.Expr) -> pl.Expr:
        return text == "header"

    def is_other_header(self, text: pl.Expr) -> pl.Expr:
        return pl.lit(False)

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        nothing = pl.lit(None, pl.String)
        return lines.with_columns(
            user=pl.lit("u"), time_text=pl.lit("2006-03-01 07:17:12"), query="text", click=nothing
        )


def _lines(*texts: bytes) -> pl.DataFrame:
    return pl.DataFrame(
        {"line": range(1, len(texts) + 1), "text": list(texts)},
        {"line": pl.Int64, "text": pl.Binary},
    )


def test_every_line_is_taken_or_rejected() -> None:
    parsed = parse_lines(WholeLine(), _lines(b"header\n", b"red\r\n", b"\xff", b"header", b" "))
    assert parsed.accepted.select("line", "user", "query").rows() == [(2, "u", "red")]
    assert parsed.rejected.select("line", "reason").rows() == [
        (3, rejects.MALFORMED_TEXT),
        (4, rejects.REPEATED_HEADER),
        (5, rejects.EMPTY_QUERY),
    ]


def test_what_stands_above_the_header_is_set_aside() -> None:
    lines = _lines(b"title", b"header", b"red", b"header")
    parsed = parse_lines(WholeLine(header_line=2), lines)
    assert parsed.accepted["line"].to_list() == [3]
    assert parsed.rejected.select("line", "reason").rows() == [
        (1, rejects.ABOVE_HEADER),
        (4, rejects.REPEATED_HEADER),
    ]
    assert rejects.ABOVE_HEADER in rejects.SET_ASIDE


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"reason": "odd", "user": ""}, "odd"),
        ({"user": " ", "time_text": ""}, rejects.NO_USER),
        ({"time_text": None, "fault": "late"}, rejects.NO_TIME),
        ({"fault": "late", "query": ""}, "late"),
        ({"query": None}, rejects.EMPTY_QUERY),
    ],
)
def test_the_first_fault_in_the_order_of_the_rules_is_named(
    changed: dict[str, str | None], reason: str
) -> None:
    row = {"text": "t", "reason": None, "user": "u", "time_text": "x", "query": "q", "fault": None}
    fields = pl.DataFrame([row | changed], dict.fromkeys(row, pl.String)).with_columns(line=1)
    times = fields.select("fault", time=pl.lit(None, pl.Datetime("us")))
    assert validate_rows(fields.drop("fault"), times).rejected["reason"].to_list() == [reason]


def test_lines_are_decoded_and_their_faults_named_length_first() -> None:
    long = b"x" * ((1 << 20) + 1)
    found = decode_lines(_lines(b"red\n", long, b"\xff\0", b"\0", b"\r\n"))
    assert found["text"].to_list()[0] == "red"
    assert found["reason"].to_list() == [
        *(None, rejects.TOO_LONG, rejects.MALFORMED_TEXT),
        *(rejects.NUL_BYTE, rejects.EMPTY_LINE),
    ]


def test_values_of_other_types_are_cast() -> None:
    assert cast_to_text(pl.Series([7, None]))[0].to_list() == ["7", None]
    text, malformed = cast_to_text(pl.Series([b"a", b"\xff", None]))
    assert text.to_list() == ["a", "\ufffd", None]
    assert malformed.to_list() == [False, True, False]


def test_excerpts_are_short() -> None:
    bad = pl.DataFrame({"line": [1], "reason": ["r"], "text": ["x" * 100]})
    assert describe_rejected(bad).rows() == [(1, "r", "x" * 60, None, None)]

"""The rules of a row, one by one, with a layout that takes the whole line for the query."""

import gzip
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from nextquery.errors import LogError
from nextquery.logs.reading import rejects
from nextquery.logs.reading.lines import LONGEST_LINE
from nextquery.logs.reading.rejects import RejectedRows, check_share
from nextquery.logs.reading.rows import (
    cast_to_text,
    decode_lines,
    describe_rejected,
    parse_lines,
    rows_frame,
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


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("été", None),
        ("half \ud800", rejects.MALFORMED_TEXT),
        ("nul \0", rejects.NUL_BYTE),
        ("é" * LONGEST_LINE, rejects.TOO_LONG),
        ("x" * (LONGEST_LINE + 1), rejects.TOO_LONG),
    ],
)
def test_texts_that_are_none_have_a_reason(query: str, reason: str | None) -> None:
    frame = rows_frame([{"query": "red"}, {"query": query, "text": query}], ("query",), 7)
    assert frame["line"].to_list() == [7, 8]
    assert frame["reason"].to_list() == [None, reason]
    assert frame["query"].to_list() == ["red", query if reason is None else None]


def listed(*reasons: str) -> pl.DataFrame:
    count = len(reasons)
    return pl.DataFrame(
        {
            "file": ["log"] * count,
            "line": range(count),
            "reason": reasons,
            "excerpt": ['"é'] * count,
            "place": range(count),
            "user": [None] * count,
            "time": [None] * count,
        }
    )


def test_rows_are_written_one_a_line_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "rejected.ndjson.gz"
    with RejectedRows(path) as rejected:
        rejected.add(listed("b", "a", "b"))
        rejected.add(listed())
        rejected.add(listed("c"))
    assert list(rejected.most_common().items()) == [("b", 2), ("a", 1), ("c", 1)]
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert rows[1] == {"file": "log", "line": 1, "reason": "a", "excerpt": '"é'}
    assert len(rows) == 4


def test_rows_set_aside_do_not_stop_the_job_unless_nothing_is_left() -> None:
    aside = dict.fromkeys(sorted(rejects.SET_ASIDE), 1000)
    check_share(1, aside, 0.0)
    with pytest.raises(LogError, match="no row is usable"):
        check_share(0, aside, 1.0)
    with pytest.raises(LogError, match=r"1 of 11 rows are bad"):
        check_share(10, aside | {rejects.NO_USER: 1}, 0.05)


def test_the_list_ends_after_very_many_rows_of_a_reason_and_the_counts_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "MOST_LISTED", 3)
    path = tmp_path / "rejected.ndjson.gz"
    with RejectedRows(path) as rejected:
        for _ in range(3):
            rejected.add(listed("a", "b", "a"))
    assert rejected.most_common() == {"a": 6, "b": 3}
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert [row["reason"] for row in rows] == ["a", "b", "a", "a", "b", "b"]


def test_excerpts_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rejected.ndjson.gz"
    with RejectedRows(path, excerpts=False) as rejected:
        rejected.add(listed("a"))
    assert json.loads(gzip.decompress(path.read_bytes())) == {
        "file": "log",
        "line": 0,
        "reason": "a",
    }


def test_only_the_owner_may_read_the_list(tmp_path: Path) -> None:
    with RejectedRows(tmp_path / "list"):
        assert stat.S_IMODE((tmp_path / "list").stat().st_mode) == 0o600


def test_a_path_that_is_no_utf_8_can_be_written() -> None:
    assert rejects.printable(Path(os.fsdecode(b"l\xffg"))) == "l\\xffg"

"""Uniform blocks give the rows that single lines give, and other blocks are told from them."""

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nextquery.logs.formats.delimited import (
    AOL_LAYOUT,
    EXCITE_LAYOUT,
    DelimitedLayout,
    parse_delimited,
    split_uniform,
)
from nextquery.logs.reading.lines import LONGEST_LINE, LineBlock
from nextquery.logs.reading.rows import parse_lines

TIME = "2006-03-01 07:17:12"
CSV = DelimitedLayout(",", (3,), user=0, time=1, query=2, click=None, quoted=True)


def _block(*lines: str | bytes, first: int = 1) -> LineBlock:
    data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    return LineBlock(first, len(lines), data)


def _same(layout: DelimitedLayout, block: LineBlock) -> None:
    by_block = parse_delimited(layout, "UTC", block)
    by_line = parse_lines(layout, block.frame())
    assert by_block.accepted.select("line", "user", "time", "query", "click").equals(
        by_line.accepted.select("line", "user", "time", "query", "click")
    )
    assert by_block.rejected.equals(by_line.rejected)


_FIELD = st.text(st.sampled_from('a7é "\u3000#,'), max_size=3)
_TIMES = st.sampled_from(
    [TIME, "2006-03-01T07:17Z", "1141197432", "soon", "", "1970-01-01 00:00:00"]
)
_ROWS = st.tuples(_FIELD, _FIELD, _TIMES, _FIELD, _FIELD).map("\t".join)
_HEADERS = st.just("AnonID\tQuery\tQueryTime\tItemRank\tClickURL")


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(_ROWS, _ROWS, _ROWS, _HEADERS), min_size=1, max_size=6), st.integers(1, 9)
)
@example(["\t\t\t\t"], 1)
def test_rows_of_one_width_are_those_of_single_lines(lines: list[str], first: int) -> None:
    block = _block(*lines, first=first)
    assert split_uniform(AOL_LAYOUT, block) is not None
    _same(AOL_LAYOUT, block)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(st.sampled_from("a7\t\r\0é"), max_size=9), min_size=1, max_size=5))
@example([f"1\ta\t{TIME}\t\t\t", f"2\tb\t{TIME}\t"])  # as many separators as two good lines have
@example([f"2\tb\t{TIME}\t", f"1\ta\t{TIME}\t\t\t"])
@example([f"1\ta\t{TIME}", f"2\tb\t{TIME}"])
def test_any_lines_are_parsed_as_single_lines(lines: list[str]) -> None:
    _same(AOL_LAYOUT, _block(*lines))


def test_other_layouts_are_split_too() -> None:
    excite = _block("A\t970916105432\tred shoes", "B\t970916\tblue")
    assert split_uniform(EXCITE_LAYOUT, excite) is not None
    _same(EXCITE_LAYOUT, excite)
    bare, quoted = _block(f"1,{TIME},red"), _block(f'1,{TIME},"red, blue"')
    assert split_uniform(CSV, bare) is not None
    assert split_uniform(CSV, quoted) is None
    _same(CSV, bare)
    _same(CSV, quoted)


def test_rows_without_clicks_are_uniform() -> None:
    fields = split_uniform(AOL_LAYOUT, _block(f"1\tred\t{TIME}", f"2\tblue\t{TIME}"))
    assert fields is not None
    assert fields["click"].to_list() == [None, None]


@pytest.mark.parametrize("odd", [b"\xff", b"\0", b"\r", b"\t"])
def test_odd_bytes_are_not_uniform_wherever_they_stand(odd: bytes) -> None:
    rank = _block(f"1\tred\t{TIME}\t".encode() + odd + b"\thttp://a.example")
    assert split_uniform(AOL_LAYOUT, rank) is None
    _same(AOL_LAYOUT, rank)


@pytest.mark.parametrize(("length", "uniform"), [(LONGEST_LINE + 1, False), (1000, True)])
def test_a_line_that_is_too_long_is_not_uniform(length: int, uniform: bool) -> None:
    short = f"1\tred\t{TIME}\t\t"
    long = f"2\t{'x' * (length - len(short) + 3)}\t{TIME}\t\t"
    assert len(long) == length
    block = _block(short, long, short)
    assert (split_uniform(AOL_LAYOUT, block) is not None) == uniform
    _same(AOL_LAYOUT, block)


def test_rows_keep_their_order_when_some_are_odd() -> None:
    block = _block(f"1\ta\t{TIME}\t\t", "1\tb\t2006-03-01T07:17:12+02:00\t\t", "1\t\t\t\t", first=5)
    accepted, rejected = parse_delimited(AOL_LAYOUT, "UTC", block)
    assert accepted["line"].to_list() == [5, 6]
    assert rejected["line"].to_list() == [7]
    assert accepted.schema["time"] == pl.Datetime("us")

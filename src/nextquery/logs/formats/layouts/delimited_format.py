"""Formats of delimited lines, and the quick way to parse a block of them: a CSV parser.

That is several times as quick as taking lines apart one by one, which `parse_lines` does for every
block that is not uniform, and for the odd lines of one that is. The rules by which a row is taken
or rejected are the same.
"""

from collections.abc import Callable, Sequence

import polars as pl

from nextquery.logs.formats.base import LineFormat
from nextquery.logs.formats.layouts.delimited_layout import DelimitedLayout
from nextquery.logs.reading.lines import LONGEST_LINE, LineBlock
from nextquery.logs.reading.rows import Layout, ParsedRows, is_complete, parse_lines
from nextquery.logs.reading.times import parse_times

_FIELDS = ("line", "user", "time", "query", "click")
_NO_LINES = pl.DataFrame(schema={"line": pl.Int64, "text": pl.String})


class DelimitedFormat(LineFormat):
    """A format whose lines are fields between separators."""

    def parse(self, layout: Layout, time_zone: str, block: LineBlock) -> ParsedRows:
        """The rows of a block, the quick way where its lines are uniform."""
        assert isinstance(layout, DelimitedLayout)
        return parse_delimited(layout, time_zone, block)


def most_rows_match(
    lines: Sequence[str], widths: Sequence[int], matches: Callable[[list[str]], object]
) -> bool:
    """Whether most lines have so many fields between tabs, and those match.

    >>> most_rows_match(["7\\tred", "8\\tblue", "none"], (2,), lambda fields: fields[0].isdigit())
    True
    """
    rows = [line.split("\t") for line in lines]
    found = sum(bool(len(fields) in widths and matches(fields)) for fields in rows)
    return found * 2 > len(rows)


def parse_delimited(layout: DelimitedLayout, time_zone: str, block: LineBlock) -> ParsedRows:
    """The rows of a block, as `parse_lines` finds them."""
    fields = split_uniform(layout, block)
    if fields is None:
        return parse_lines(layout, block.frame(), time_zone)
    rows = fields.with_columns(parse_times(fields["time_text"], time_zone, layout.time_pattern))
    complete = _find_complete(rows) & (rows["line"] >= layout.header_line)
    accepted = rows.filter(complete).select(_FIELDS)
    # A header is an odd line, too: its time is none.
    lines = _NO_LINES if complete.all() else block.frame().filter(~complete)
    odd = parse_lines(layout, lines, time_zone)
    if len(odd.accepted):
        accepted = pl.concat([accepted, odd.accepted.select(_FIELDS)]).sort("line")
    return ParsedRows(accepted, odd.rejected)


def _find_complete(rows: pl.DataFrame) -> pl.Series:
    """Whether each row is complete; a text that starts with a visible ASCII character is not blank.

    That is quick to see, and mostly true of all rows.
    """
    visible = pl.col("user", "query").is_between(pl.lit("!"), pl.lit("~"), closed="left")
    seen = pl.all_horizontal(pl.col("time").is_not_null(), visible.fill_null(False))
    surely = rows.select(seen).to_series()
    return surely if surely.all() else rows.select(is_complete()).to_series()


def split_uniform(layout: DelimitedLayout, block: LineBlock) -> pl.DataFrame | None:
    """Columns line, user, time_text, query and click; None if lines may differ."""
    width = _common_width(layout, block)
    if width is None or not _is_uniform(layout, block.data):
        return None
    names = [f"field_{place}" for place in range(width)]
    try:
        rows = pl.read_csv(
            block.data,
            has_header=False,
            separator=layout.separator,
            quote_char=None,
            schema=dict.fromkeys(names, pl.String),
            columns=[place for place in sorted(layout.places) if place < width],
        )
    except pl.exceptions.PolarsError:
        return None
    if len(rows) != block.count:
        return None
    click = layout.click if layout.click is not None and layout.click < width else None
    return rows.select(
        line=pl.int_range(block.first, block.first + block.count, dtype=pl.Int64),
        user=names[layout.user],
        time_text=names[layout.time],
        query=names[layout.query],
        click=pl.lit(None, pl.String) if click is None else names[click],
    )


def _common_width(layout: DelimitedLayout, block: LineBlock) -> int | None:
    """The width of all lines, if there is one: the CSV parser refuses lines with more fields.

    No line can then have fewer, since the block has as many separators as if none had.
    """
    separators = block.data.count(layout.separator.encode())
    widths = (width for width in layout.widths if separators == (width - 1) * block.count)
    return next(widths, None)


def _is_uniform(layout: DelimitedLayout, data: bytes) -> bool:
    """No quoted field, no other line end, no NUL, no line that is too long, sound UTF-8."""
    odd = (b"\0", b"\r", b'"') if layout.quoted else (b"\0", b"\r")
    return not any(map(data.__contains__, odd)) and _lines_are_short(data) and _is_utf8(data)


def _lines_are_short(data: bytes) -> bool:
    """Whether every window of half the limit has a line end, so that no line passes the limit."""
    step = LONGEST_LINE // 2
    starts = range(0, len(data) - step, step)
    return all(data.find(b"\n", start, start + step) >= 0 for start in starts)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

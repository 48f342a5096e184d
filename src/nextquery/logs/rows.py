"""Lines of a log become rows of the canonical table, or rejected rows with a reason.

The canonical table: `user` string, `time` naive UTC, `query` the raw text, `click` what was
clicked or null, `row` int64, the order over all files and lines. Knows the order in which a row is
judged; a layout knows where the fields are. `parse_lines` is a pure function of numbered lines, so
any engine can apply it to its own partitions of a log.
"""

from typing import NamedTuple, Protocol

import polars as pl

from nextquery.logs import rejects
from nextquery.logs.lines import LONGEST_LINE
from nextquery.logs.times import USUAL, parse_times

_WORKING = ("text", "reason", "fault", "time_text")


class Layout(Protocol):
    """Where a format keeps its fields."""

    @property
    def time_pattern(self) -> str:
        """How the format usually writes times."""

    def is_header(self, text: pl.Expr) -> pl.Expr:
        """Whether a line is a header and not a row."""

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""


class Parsed(NamedTuple):
    """Every row of the input once: taken with its fields, or rejected with its reason."""

    accepted: pl.DataFrame
    """line, user, time, query, click"""
    rejected: pl.DataFrame
    """line, reason, excerpt"""


def parse_lines(layout: Layout, lines: pl.DataFrame, time_zone: str = "UTC") -> Parsed:
    """Judge every line of `lines` (line int64, text binary or string, with or without its end).

    A header on line 1 is no row and appears nowhere; a header on any other line is rejected.
    """
    texts = _texts(lines)
    header = layout.is_header(pl.col("text"))
    rows = texts.filter((pl.col("line") != 1) | ~header.fill_null(False))
    rows = rows.with_columns(
        pl.coalesce("reason", pl.when(header).then(pl.lit(rejects.REPEATED_HEADER)))
    )
    return judge_fields(layout.fields(rows), time_zone, layout.time_pattern)


def judge_fields(fields: pl.DataFrame, time_zone: str, time_pattern: str = USUAL) -> Parsed:
    """Split rows of fields into those that are complete and those that are not."""
    times = parse_times(fields["time_text"], time_zone, time_pattern)
    judged = fields.with_columns(times).with_columns(
        pl.coalesce(
            "reason",
            pl.when(_is_blank("user")).then(pl.lit(rejects.NO_USER)),
            pl.when(_is_blank("time_text")).then(pl.lit(rejects.NO_TIME)),
            "fault",
            pl.when(_is_blank("query")).then(pl.lit(rejects.EMPTY_QUERY)),
        )
    )
    return split_rows(judged)


def split_rows(judged: pl.DataFrame) -> Parsed:
    """Part the rows by whether they have a reason to be rejected."""
    good = judged["reason"].is_null()
    bad = judged.filter(~good).select("line", "reason", rejects.excerpt(pl.col("text")))
    accepted = judged if good.all() else judged.filter(good)
    return Parsed(accepted.drop(_WORKING, strict=False), bad)


def _texts(lines: pl.DataFrame) -> pl.DataFrame:
    """Bytes as text, with the reason where they are none."""
    text = pl.col("text").cast(pl.String, strict=False).str.strip_suffix("\n")
    decoded = lines.select("line", text, raw="text").with_columns(
        malformed=pl.col("text").is_null()
    )
    if decoded["malformed"].any():
        decoded = _with_replacements(decoded)
    stripped = pl.col("text").str.strip_suffix("\r")
    return decoded.select("line", stripped, reason=_text_fault())


def _with_replacements(decoded: pl.DataFrame) -> pl.DataFrame:
    """Fill the texts that are not UTF-8 with what can be read of them, to be shown."""
    bad = decoded["malformed"]
    readable = [raw.decode("utf-8", "replace") for raw in decoded["raw"].filter(bad)]
    text = decoded["text"].scatter(bad.arg_true(), pl.Series(readable, dtype=pl.String))
    return decoded.with_columns(text)


def _text_fault() -> pl.Expr:
    text = pl.col("text")
    # The length comes first: a line that was cut for it may end within a character.
    return (
        pl.when(text.str.len_bytes() > LONGEST_LINE)
        .then(pl.lit(rejects.TOO_LONG))
        .when(pl.col("malformed"))
        .then(pl.lit(rejects.MALFORMED_TEXT))
        .when(text.str.contains("\0", literal=True))
        .then(pl.lit(rejects.NUL_BYTE))
        .when(text.str.strip_suffix("\r") == "")
        .then(pl.lit(rejects.EMPTY_LINE))
    )


def _is_blank(name: str) -> pl.Expr:
    return pl.col(name).is_null() | (pl.col(name).str.strip_chars() == "")

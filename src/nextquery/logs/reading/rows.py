"""Parsed lines and texts become rows of the canonical table, or rejected rows with a reason."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import polars as pl

from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import LONGEST_LINE, LineBlock
from nextquery.logs.reading.times import USUAL, parse_times

CANONICAL = ("user", "time", "query", "click", "row")
_OWNER: dict[str, pl.DataType] = {"user": pl.String(), "time": pl.Datetime("us")}
_WORKING = ("text", "reason", "fault", "time_text")


class ParsedRows(NamedTuple):
    """Every row of the input once: taken with its fields, or rejected with its reason."""

    accepted: pl.DataFrame
    """line, user, time, query, click"""
    rejected: pl.DataFrame
    """line, reason, excerpt, and as far as they are known, user and time"""


class Layout(ABC):
    """Where a format keeps its fields; without headers unless said otherwise."""

    time_pattern: str = USUAL
    """How the format usually writes times."""
    header_line: int = 1
    """The line on which a header is expected; lines above it are not rows."""

    def is_header(self, text: pl.Expr) -> pl.Expr:
        """Whether a line is a header and not a row."""
        return pl.lit(False)

    def is_other_header(self, text: pl.Expr) -> pl.Expr:
        """Whether a line is a header with the columns in another order."""
        return pl.lit(False)

    @abstractmethod
    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""

    def parse(self, time_zone: str, block: LineBlock) -> ParsedRows:
        """The rows of a block."""
        return parse_lines(self, block.frame(), time_zone)


def parse_lines(layout: Layout, lines: pl.DataFrame, time_zone: str = "UTC") -> ParsedRows:
    """Take or reject every line of `lines`: line int64, text binary or string, with its end or not.

    A header where it is expected is left out; one on any other line is rejected, and so are the
    lines above it.
    """
    rows = _without_headers(decode_lines(lines), layout)
    fields = layout.fields(rows)
    return validate_rows(fields, parse_times(fields["time_text"], time_zone, layout.time_pattern))


def validate_rows(fields: pl.DataFrame, times: pl.DataFrame) -> ParsedRows:
    """Split rows of fields into those that are complete and those that are not."""
    rows = fields.with_columns(times)
    # Reasons are worked out for bad rows only: they are few, and naming them is slow.
    is_fine = rows.select(pl.col("reason").is_null() & is_complete()).to_series()
    bad = rows.filter(~is_fine).with_columns(
        pl.coalesce(
            "reason",
            pl.when(_is_blank("user")).then(pl.lit(rejects.NO_USER)),
            pl.when(_is_blank("time_text")).then(pl.lit(rejects.NO_TIME)),
            "fault",
            pl.lit(rejects.EMPTY_QUERY),
        )
    )
    accepted = rows if is_fine.all() else rows.filter(is_fine)
    return ParsedRows(accepted.drop(_WORKING, strict=False), describe_rejected(bad))


def is_complete() -> pl.Expr:
    """Whether a row has a user, a time and a query."""
    return pl.all_horizontal(pl.col("time").is_not_null(), ~_is_blank("user"), ~_is_blank("query"))


def describe_rejected(bad: pl.DataFrame) -> pl.DataFrame:
    """What is kept of rejected rows: line, reason, a short excerpt of the text, user and time."""
    rows = with_owner(bad)
    user = pl.when(~_is_blank("user")).then("user").alias("user")
    return rows.select("line", "reason", rejects.excerpt(pl.col("text")), user, "time")


def with_owner(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns user and time, null where nothing is known of them.

    >>> with_owner(pl.DataFrame({"line": [1]})).columns
    ['line', 'user', 'time']
    """
    missing = [name for name in _OWNER if name not in rows.columns]
    return rows.with_columns(pl.lit(None, _OWNER[name]).alias(name) for name in missing)


def _without_headers(texts: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """Leave out the header where it is expected; reject others and the lines above it."""
    header = texts.select(layout.is_header(pl.col("text")).fill_null(False)).to_series()
    other = texts.select(layout.is_other_header(pl.col("text"))).to_series()
    above = texts["line"] < layout.header_line
    if not (header.any() or other.any() or above.any()):
        return texts
    fault = (
        pl.when(above)
        .then(pl.lit(rejects.ABOVE_HEADER))
        .when(header)
        .then(pl.lit(rejects.REPEATED_HEADER))
        .when(other)
        .then(pl.lit(rejects.OTHER_HEADER))
    )
    rows = texts.with_columns(pl.coalesce("reason", fault))
    return rows.filter(~header | (pl.col("line") != layout.header_line))


def decode_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Columns line, text and reason: bytes as text, with a reason where they are malformed."""
    text, malformed = cast_to_text(lines["text"])
    whole = text.str.strip_suffix("\n")
    frame = pl.DataFrame([lines["line"], whole.str.strip_suffix("\r")])
    # The length comes first: a line that was cut for it may end within a character.
    faults = {
        rejects.TOO_LONG: whole.str.len_bytes() > LONGEST_LINE,
        rejects.MALFORMED_TEXT: malformed,
        rejects.NUL_BYTE: whole.str.contains("\0", literal=True),
        rejects.EMPTY_LINE: frame["text"] == "",
    }
    reasons = [
        pl.when(is_faulty).then(pl.lit(why)) for why, is_faulty in faults.items() if is_faulty.any()
    ]
    return frame.with_columns(reason=pl.coalesce(*reasons, pl.lit(None, pl.String)))


def cast_to_text(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Values as strings, and whether each is malformed UTF-8 (what can be read of it remains)."""
    try:
        return values.cast(pl.String), pl.repeat(False, len(values), eager=True)
    except pl.exceptions.PolarsError:
        if values.dtype != pl.Binary:
            raise
    texts: list[str | None] = []
    malformed = []
    for raw in values:
        try:
            texts.append(None if raw is None else raw.decode())
            malformed.append(False)
        except UnicodeDecodeError:
            texts.append(raw.decode(errors="replace"))
            malformed.append(True)
    return pl.Series(values.name, texts, pl.String), pl.Series(malformed, dtype=pl.Boolean)


def _is_blank(name: str) -> pl.Expr:
    return pl.col(name).is_null() | (pl.col(name).str.strip_chars() == "")


Row = dict[str, str | None]
"""The fields of a row by name; `text` is what an excerpt shows, `reason` why it is rejected."""


def rows_frame(rows: list[Row], fields: tuple[str, ...], first: int) -> pl.DataFrame:
    """Rows as a table of texts, numbered from `first`, with reasons for malformed texts."""
    names = (*fields, "text", "reason")
    sound = [_valid({name: row.get(name) for name in names}) for row in rows]
    frame = pl.DataFrame(sound, schema=dict.fromkeys(names, pl.String))
    return frame.with_row_index("line", first).cast({"line": pl.Int64})


def _valid(row: Row) -> Row:
    """The row, with a reason if a text has a lone surrogate or a NUL, or is far too long."""
    joined = "".join(filter(None, row.values()))
    if joined.isascii() and "\0" not in joined and len(joined) <= LONGEST_LINE:
        return row
    try:
        size = len(joined.encode())
        fault = rejects.TOO_LONG if size > LONGEST_LINE else None
        fault = rejects.NUL_BYTE if fault is None and "\0" in joined else fault
    except UnicodeEncodeError:
        fault = rejects.MALFORMED_TEXT
    if fault is None:
        return row
    shown = (row["text"] or "")[:100].encode(errors="replace").decode()
    return dict.fromkeys(row) | {"text": shown, "reason": fault}

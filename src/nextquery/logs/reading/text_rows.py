"""Rows that come as Python texts, not as lines: those of JSON documents and of workbooks."""

import polars as pl

from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.lines import LONGEST_LINE

Row = dict[str, str | None]
"""The fields of a row by name; `text` is what an excerpt shows, `reason` why it is rejected."""


def rows_frame(rows: list[Row], fields: tuple[str, ...], first: int) -> pl.DataFrame:
    """Rows as a table of texts, numbered from `first`, with reasons for texts that are none."""
    names = (*fields, "text", "reason")
    sound = [_sound({name: row.get(name) for name in names}) for row in rows]
    frame = pl.DataFrame(sound, schema=dict.fromkeys(names, pl.String))
    return frame.with_row_index("line", first).cast({"line": pl.Int64})


def _sound(row: Row) -> Row:
    """The row with a reason if some text holds half a character, a NUL, or is far too long."""
    joined = "".join(filter(None, row.values()))
    if joined.isascii() and "\0" not in joined and len(joined) <= LONGEST_LINE:
        return row
    try:
        size = len(joined.encode())
        fault = rejected_rows.TOO_LONG if size > LONGEST_LINE else None
        fault = rejected_rows.NUL_BYTE if fault is None and "\0" in joined else fault
    except UnicodeEncodeError:
        fault = rejected_rows.MALFORMED_TEXT
    if fault is None:
        return row
    shown = (row["text"] or "")[:100].encode(errors="replace").decode()
    return dict.fromkeys(row) | {"text": shown, "reason": fault}

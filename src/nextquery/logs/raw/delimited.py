"""Rows of fields between separators: AOL, Excite, and any CSV or TSV.

Knows how one line becomes user, time, query and click; nothing of files. Quotes are plain
characters except in CSV, where a field may be quoted (RFC 4180) but must end on its line.
"""

import csv
from dataclasses import dataclass

import polars as pl

from nextquery.logs.raw import rejects
from nextquery.logs.raw.times import USUAL


@dataclass(frozen=True)
class DelimitedLayout:
    """Where the fields of a row stand. `click` is None in a log without clicks."""

    separator: str
    widths: tuple[int, ...]
    """The numbers of fields that a row may have, the largest last."""
    user: int
    time: int
    query: int
    click: int | None
    header: str | None = None
    """The header line, where the file has one."""
    quoted: bool = False
    time_pattern: str = USUAL

    def is_header(self, text: pl.Expr) -> pl.Expr:
        """Whether a line is the header."""
        return pl.lit(False) if self.header is None else text == self.header

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""
        rows = lines.with_columns(
            pl.col("text").str.splitn(self.separator, self.widths[-1]).alias("fields")
        ).with_columns(self._width().alias("width"))
        if self.quoted:
            rows = self._with_quoted_fields(rows)
        wrong = ~pl.col("width").is_in(self.widths)
        return rows.with_columns(
            self._field(self.user).alias("user"),
            self._field(self.time).alias("time_text"),
            self._field(self.query).alias("query"),
            self._click().alias("click"),
            pl.coalesce("reason", pl.when(wrong).then(pl.lit(rejects.WRONG_COLUMNS))),
        ).drop("fields", "width")

    def _width(self) -> pl.Expr:
        """How many fields a row has; those beyond the expected ones stand in the last."""
        present = [self._field(place).is_not_null() for place in range(self.widths[-1])]
        beyond = self._field(self.widths[-1] - 1).str.count_matches(self.separator, literal=True)
        return pl.sum_horizontal(present) + beyond.fill_null(0)

    def _field(self, position: int) -> pl.Expr:
        return pl.col("fields").struct.field(f"field_{position}")

    def _click(self) -> pl.Expr:
        if self.click is None:
            return pl.lit(None, pl.String)
        click = self._field(self.click)
        return pl.when(click != "").then(click)

    def _with_quoted_fields(self, plain: pl.DataFrame) -> pl.DataFrame:
        """Split the rows that hold a quote one by one; the others are split already."""
        has_quote = plain["text"].str.contains('"', literal=True).fill_null(False)
        if not has_quote.any():
            return plain
        rows = [self._split(text) for text in plain["text"].filter(has_quote)]
        names = [f"field_{position}" for position in range(self.widths[-1])]
        quoted = plain.filter(has_quote).with_columns(
            pl.Series(
                "fields",
                [dict(zip(names, row, strict=False)) for row in rows],
                plain.schema["fields"],
            ),
            pl.Series("width", [len(row) for row in rows], plain.schema["width"]),
            pl.coalesce(
                "reason",
                pl.when(pl.Series([not row for row in rows])).then(pl.lit(rejects.BAD_QUOTES)),
            ),
        )
        return pl.concat([plain.filter(~has_quote), quoted]).sort("line")

    def _split(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=self.separator, strict=True), [])
        except csv.Error:
            return []


AOL = DelimitedLayout(
    separator="\t",
    widths=(3, 5),
    user=0,
    query=1,
    time=2,
    click=4,
    header="AnonID\tQuery\tQueryTime\tItemRank\tClickURL",
)
EXCITE = DelimitedLayout(
    separator="\t", widths=(3,), user=0, time=1, query=2, click=None, time_pattern="%y%m%d%H%M%S"
)

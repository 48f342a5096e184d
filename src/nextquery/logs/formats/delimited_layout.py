"""Lines of fields between separators: where user, time, query and click stand in them.

Quotes are ordinary characters, except in CSV, where a field may be quoted (RFC 4180) but must end
on its line.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.times import USUAL


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
        if not self.quoted:
            return self._unquoted_fields(lines)
        has_quote = lines["text"].str.contains('"', literal=True)
        if not has_quote.any():
            return self._unquoted_fields(lines)
        unquoted = self._unquoted_fields(lines.filter(~has_quote))
        return pl.concat([unquoted, self._quoted_fields(lines.filter(has_quote))]).sort("line")

    def _unquoted_fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        split = pl.col("text").str.splitn(self.separator, self.widths[-1]).alias("fields")
        wrong = ~self._width().is_in(self.widths)
        return self._named(
            lines.with_columns(split),
            {place: _field(place) for place in range(self.widths[-1])},
            pl.when(wrong).then(pl.lit(rejected_rows.WRONG_COLUMNS)),
        )

    def _quoted_fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The same for rows in which some field is quoted."""
        places = [place for place in range(self.widths[-1]) if place in self.places]
        groups = pl.col("text").str.extract_groups(self._row_pattern()).alias("fields")
        values = {}
        for number, place in enumerate(places):
            inside, bare = _group(2 * number + 1), _group(2 * number + 2)
            values[place] = pl.coalesce(inside.str.replace_all('""', '"', literal=True), bare)
        rows = lines.with_columns(groups)
        missed = rows.select(values[self.user].is_null()).to_series()
        faults = [self._quote_fault(text) for text in rows["text"].filter(missed)]
        fault = pl.repeat(None, len(rows), dtype=pl.String, eager=True)
        return self._named(rows, values, pl.lit(fault.scatter(missed.arg_true(), faults)))

    def _named(
        self, rows: pl.DataFrame, values: Mapping[int, pl.Expr], fault: pl.Expr
    ) -> pl.DataFrame:
        click = pl.lit(None, pl.String) if self.click is None else values[self.click]
        return rows.with_columns(
            values[self.user].alias("user"),
            values[self.time].alias("time_text"),
            values[self.query].alias("query"),
            pl.when(click != "").then(click).alias("click"),
            pl.coalesce("reason", fault),
        ).drop("fields")

    @property
    def places(self) -> set[int]:
        """Where the wanted fields stand."""
        found = {self.user, self.time, self.query}
        return found if self.click is None else found | {self.click}

    def _width(self) -> pl.Expr:
        """How many fields a row has; those beyond the expected ones stand in the last."""
        present = [_field(place).is_not_null() for place in range(self.widths[-1])]
        beyond = _field(self.widths[-1] - 1).str.count_matches(self.separator, literal=True)
        return pl.sum_horizontal(present) + beyond.fill_null(0)

    def _row_pattern(self) -> str:
        """A row of the right width, with two groups for each wanted field: quoted, and bare."""
        other = f'[^"{self.separator}][^{self.separator}]*|'
        wanted, unwanted = f'(?:"((?:[^"]|"")*)"|({other}))', f'(?:"(?:[^"]|"")*"|{other})'
        fields = (wanted if place in self.places else unwanted for place in range(self.widths[-1]))
        return f"^{re.escape(self.separator).join(fields)}$"

    def _quote_fault(self, text: str) -> str:
        try:
            next(csv.reader([text], delimiter=self.separator, strict=True))
        except csv.Error:
            return rejected_rows.BAD_QUOTES
        return rejected_rows.WRONG_COLUMNS


def _field(place: int) -> pl.Expr:
    return pl.col("fields").struct.field(f"field_{place}")


def _group(number: int) -> pl.Expr:
    return pl.col("fields").struct.field(str(number))

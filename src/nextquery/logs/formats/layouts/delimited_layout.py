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

_WIDEST_PATTERN = 100
"""The most columns for which quoted rows are split by one pattern."""


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
    header_line: int = 1
    """Where it stands; what is above it is no row."""
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
        width = pl.col("text").str.count_matches(self.separator, literal=True) + 1
        fits = width.is_in(self.widths)
        # Lines of another width are not split: one of separators alone would be a million fields.
        split = pl.when(fits).then("text").str.split(self.separator).alias("fields")
        values = {
            place: pl.col("fields").list.get(place, null_on_oob=True) for place in self.places
        }
        # A row that is refused still belongs to somebody, who may ask that it be forgotten.
        values[self.user] = pl.when(fits).then(values[self.user]).otherwise(self._likely_user())
        return self._named(
            lines.with_columns(split),
            values,
            pl.when(~fits).then(pl.lit(rejected_rows.WRONG_COLUMNS)),
        )

    def _likely_user(self) -> pl.Expr:
        """The field in the place of the user, in a row of any width above one field."""
        if self.user > _WIDEST_PATTERN:
            return pl.lit(None, pl.String)
        field = f"[^{self.separator}]*"
        before = f"(?:{field}{re.escape(self.separator)}){{{self.user}}}"
        separated = f"{before}({field}){re.escape(self.separator)}"
        last = f"{before}({field})$" if self.user else separated
        text = pl.col("text")
        return pl.coalesce(text.str.extract(f"^{separated}"), text.str.extract(f"^{last}"))

    def _quoted_fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The same for rows in which some field is quoted."""
        if self.widths[-1] > _WIDEST_PATTERN:
            return self._wide_quoted_fields(lines)
        places = sorted(self.places)
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

    def _wide_quoted_fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The same, line by line: a pattern of so many fields takes long to compile."""
        faults, found = [], []
        for text in lines["text"]:
            fields = self._split_quoted(text) or []
            fits = len(fields) in self.widths
            faults.append(None if fits else self._quote_fault(text))
            found.append([fields[place] if fits else None for place in sorted(self.places)])
        kept = pl.Series("fields", found, dtype=pl.List(pl.String))
        values = {
            place: pl.col("fields").list.get(index)
            for index, place in enumerate(sorted(self.places))
        }
        fault = pl.lit(pl.Series(faults, dtype=pl.String))
        return self._named(lines.with_columns(kept), values, fault)

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

    def _row_pattern(self) -> str:
        """A row of the right width, with two groups for each wanted field: quoted, and bare."""
        other = f'[^"{self.separator}][^{self.separator}]*|'
        wanted, unwanted = f'(?:"((?:[^"]|"")*)"|({other}))', f'(?:"(?:[^"]|"")*"|{other})'
        fields = (wanted if place in self.places else unwanted for place in range(self.widths[-1]))
        return f"^{re.escape(self.separator).join(fields)}$"

    def _quote_fault(self, text: str) -> str:
        unsplit = self._split_quoted(text) is None
        return rejected_rows.BAD_QUOTES if unsplit else rejected_rows.WRONG_COLUMNS

    def _split_quoted(self, text: str) -> list[str] | None:
        """The fields of a line; None if its quotes are wrong."""
        try:
            return next(csv.reader([text], delimiter=self.separator, strict=True), [])
        except csv.Error:
            return None


def _group(number: int) -> pl.Expr:
    return pl.col("fields").struct.field(str(number))

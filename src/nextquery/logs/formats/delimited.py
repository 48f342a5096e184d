"""Delimited text logs: CSV and TSV with any header, the AOL log and the Excite log."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import polars as pl

from nextquery.errors import LogError
from nextquery.logs.formats.base import (
    REQUIRED,
    LineFormat,
    check_conditions,
    filtered,
    find_columns,
    in_other_order,
)
from nextquery.logs.formats.json import sample_objects
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import LONGEST_LINE, LineBlock, Sample
from nextquery.logs.reading.rows import Layout, ParsedRows, is_complete, parse_lines
from nextquery.logs.reading.times import USUAL, parse_times
from nextquery.logs.settings import Condition, ReadSettings

LONGEST_PREAMBLE = 30
_HEADER_SEPARATORS = ("\t", ",", ";", "|")
_LIKE_IT = 3
"""Lines after a header that must have as many fields as it has."""
_NAME = re.compile(r"[^\W\d_][\w.@# ()/-]{0,39}")


class HeaderLine(NamedTuple):
    """The index of a header among the first lines, from 0, and its names."""

    position: int
    names: tuple[str, ...]


def likely_header(lines: Sequence[str]) -> HeaderLine | None:
    """The first line of several different names that is followed by rows of the same width.

    >>> rows = ("7;red shoes;1.3.2024 10:00", "7;blue shoes;1.3.2024 10:01")
    >>> likely_header(("# Site search", "", "Visitor ID;Term;Date", *rows))
    HeaderLine(position=2, names=('Visitor ID', 'Term', 'Date'))
    """
    for index, line in enumerate(lines[:LONGEST_PREAMBLE]):
        for separator in _HEADER_SEPARATORS:
            names = _fields(line, separator)
            if not _are_names(names):
                continue
            following = [row for row in lines[index + 1 :] if row.strip()][:_LIKE_IT]
            rows = [_fields(row, separator) for row in following]
            # A row has something that is not a name: a number, a time, an empty field.
            if rows and all(len(row) == len(names) and not _are_names(row) for row in rows):
                return HeaderLine(index, names)
    return None


def _fields(line: str, separator: str) -> tuple[str, ...]:
    try:
        return tuple(name.strip() for name in next(csv.reader([line], delimiter=separator), ()))
    except csv.Error:
        return ()


def _are_names(names: Sequence[str]) -> bool:
    several = len(names) > 2 and len(set(names)) == len(names)
    return several and all(map(_NAME.fullmatch, names))


_WIDEST_PATTERN = 100
"""The most columns for which quoted rows are split by one pattern."""


@dataclass(frozen=True)
class DelimitedLayout(Layout):
    """The positions of the fields of a row. `click` is None in a log without clicks."""

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
    """Its line number; lines above it are not rows."""
    quoted: bool = False
    time_pattern: str = USUAL
    where: tuple[tuple[Condition, int], ...] = ()
    """Conditions, and the position of each one's column."""

    def parse(self, time_zone: str, block: LineBlock) -> ParsedRows:
        """The rows of a block, the quick way where its lines are uniform."""
        fields = split_uniform(self, block)
        if fields is None:
            return super().parse(time_zone, block)
        rows = fields.with_columns(parse_times(fields["time_text"], time_zone, self.time_pattern))
        complete = rows.select(is_complete()).to_series()
        complete &= rows["line"] >= self.header_line
        accepted = rows.filter(complete).select(_FIELDS)
        # A header is such a line, too: its time cannot be parsed.
        lines = _NO_LINES if complete.all() else block.frame().filter(~complete)
        odd = parse_lines(self, lines, time_zone)
        if len(odd.accepted):
            accepted = pl.concat([accepted, odd.accepted.select(_FIELDS)]).sort("line")
        return ParsedRows(accepted, odd.rejected)

    def is_header(self, text: pl.Expr) -> pl.Expr:
        """Whether a line is the header."""
        return pl.lit(False) if self.header is None else text == self.header

    def is_other_header(self, text: pl.Expr) -> pl.Expr:
        """Whether a line has the names of the header in another order: other files follow it."""
        if self.header is None:
            return pl.lit(False)
        first = self.header.lower()
        names = sorted(first.split(self.separator))
        # Another order has the same length, which is quick to see.
        alike = (text.str.len_bytes() == len(first.encode())) & (text.str.to_lowercase() != first)
        fields = pl.when(alike).then(text.str.to_lowercase().str.split(self.separator))
        same = fields.list.sort().list.join(self.separator) == self.separator.join(names)
        return same.fill_null(False)

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""
        has_quote = lines["text"].str.contains('"', literal=True)
        if not self.quoted or not has_quote.any():
            return self._unquoted_fields(lines)
        unquoted = self._unquoted_fields(lines.filter(~has_quote))
        return pl.concat([unquoted, self._quoted_fields(lines.filter(has_quote))]).sort("line")

    def _unquoted_fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        width = pl.col("text").str.count_matches(self.separator, literal=True) + 1
        fits = width.is_in(self.widths)
        # Lines of another width are not split: one of separators alone would be a million fields.
        split = pl.when(fits).then("text").str.split(self.separator).alias("fields")
        values = {
            position: pl.col("fields").list.get(position, null_on_oob=True)
            for position in self.positions
        }
        # A rejected row still belongs to a user, who may ask for its removal.
        values[self.user] = pl.when(fits).then(values[self.user]).otherwise(self._likely_user())
        fault = pl.when(~fits).then(pl.lit(rejects.WRONG_COLUMNS))
        return self._named(lines.with_columns(split), values, fault)

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
        positions = sorted(self.positions)
        groups = pl.col("text").str.extract_groups(self._row_pattern()).alias("fields")
        values = {}
        for number, position in enumerate(positions):
            inside = pl.col("fields").struct.field(str(2 * number + 1))
            bare = pl.col("fields").struct.field(str(2 * number + 2))
            values[position] = pl.coalesce(inside.str.replace_all('""', '"', literal=True), bare)
        rows = lines.with_columns(groups)
        missed = rows.select(values[self.user].is_null()).to_series()
        faults = [self._quote_fault(text) for text in rows["text"].filter(missed)]
        fault = pl.repeat(None, len(rows), dtype=pl.String, eager=True)
        return self._named(rows, values, pl.lit(fault.scatter(missed.arg_true(), faults)))

    def _wide_quoted_fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The same, line by line: a pattern of that many fields takes long to compile."""
        faults, rows = [], []
        for text in lines["text"]:
            fields = self._split_quoted(text) or []
            fits = len(fields) in self.widths
            faults.append(None if fits else self._quote_fault(text))
            rows.append([fields[position] if fits else None for position in sorted(self.positions)])
        kept = pl.Series("fields", rows, dtype=pl.List(pl.String))
        values = {
            position: pl.col("fields").list.get(index)
            for index, position in enumerate(sorted(self.positions))
        }
        fault = pl.lit(pl.Series(faults, dtype=pl.String))
        return self._named(lines.with_columns(kept), values, fault)

    def _named(
        self, rows: pl.DataFrame, values: Mapping[int, pl.Expr], fault: pl.Expr
    ) -> pl.DataFrame:
        click = pl.lit(None, pl.String) if self.click is None else values[self.click]
        conditions = [(condition, values[position]) for condition, position in self.where]
        excluded = filtered(conditions) if conditions else pl.lit(None, pl.String)
        return rows.with_columns(
            values[self.user].alias("user"),
            values[self.time].alias("time_text"),
            values[self.query].alias("query"),
            pl.when(click != "").then(click).alias("click"),
            pl.coalesce("reason", fault, excluded),
        ).drop("fields")

    @property
    def positions(self) -> set[int]:
        """The positions of the wanted fields."""
        used = {self.user, self.time, self.query, *(position for _, position in self.where)}
        return used if self.click is None else used | {self.click}

    def _row_pattern(self) -> str:
        """A row of the right width, with two groups for each wanted field: quoted, and bare."""
        other = f'[^"{self.separator}][^{self.separator}]*|'
        captured, skipped = f'(?:"((?:[^"]|"")*)"|({other}))', f'(?:"(?:[^"]|"")*"|{other})'
        fields = (
            captured if position in self.positions else skipped
            for position in range(self.widths[-1])
        )
        return f"^{re.escape(self.separator).join(fields)}$"

    def _quote_fault(self, text: str) -> str:
        unsplit = self._split_quoted(text) is None
        return rejects.BAD_QUOTES if unsplit else rejects.WRONG_COLUMNS

    def _split_quoted(self, text: str) -> list[str] | None:
        """The fields of a line; None if its quotes are wrong."""
        try:
            return next(csv.reader([text], delimiter=self.separator, strict=True), [])
        except csv.Error:
            return None


_FIELDS = ("line", "user", "time", "query", "click")
_NO_LINES = pl.DataFrame(schema={"line": pl.Int64, "text": pl.String})


def most_rows_match(
    lines: Sequence[str], widths: Sequence[int], matches: Callable[[list[str]], object]
) -> bool:
    """Whether most lines have this number of fields between tabs, and those match.

    >>> most_rows_match(["7\\tred", "8\\tblue", "none"], (2,), lambda fields: fields[0].isdigit())
    True
    """
    rows = [line.split("\t") for line in lines]
    matching = sum(bool(len(fields) in widths and matches(fields)) for fields in rows)
    return matching * 2 > len(rows)


def check_order(sample: Sample, expected: Sequence[str]) -> None:
    """Refuse a file whose header has the columns of a fixed format in another order."""
    if in_other_order(sample.lines[0], expected):
        raise LogError(
            f"{sample.file}: its header has another order than {', '.join(expected)}; read it with "
            "`format=tsv` and `columns=user=...,time=...,query=...`"
        )


def split_uniform(layout: DelimitedLayout, block: LineBlock) -> pl.DataFrame | None:
    """Columns line, user, time_text, query and click; None if lines may differ."""
    # The CSV parser refuses lines with more fields; no line can then have fewer, since the block
    # has as many separators as if none had.
    separators = block.data.count(layout.separator.encode())
    widths = (width for width in layout.widths if separators == (width - 1) * block.count)
    width = next(widths, None)
    if layout.where or width is None or not _is_uniform(layout, block.data):
        return None
    names = [f"field_{position}" for position in range(width)]
    try:
        rows = pl.read_csv(
            block.data,
            has_header=False,
            separator=layout.separator,
            quote_char=None,
            schema=dict.fromkeys(names, pl.String),
            columns=[position for position in sorted(layout.positions) if position < width],
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


def _is_uniform(layout: DelimitedLayout, data: bytes) -> bool:
    """Whether it is UTF-8 without quoted fields, other line ends, NULs and overlong lines."""
    odd = (b"\0", b"\r", b'"') if layout.quoted else (b"\0", b"\r")
    if any(map(data.__contains__, odd)):
        return False
    # Every window of half the limit has a line end, so that no line passes the limit.
    step = LONGEST_LINE // 2
    starts = range(0, len(data) - step, step)
    if not all(data.find(b"\n", start, start + step) >= 0 for start in starts):
        return False
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


_SEPARATORS = (",", ";", "|")
_NUMBER = re.compile("[0-9]{1,9}")


class CsvFormat(LineFormat):
    """Lines of fields between commas, semicolons or bars, as the first line has it."""

    name = "csv"
    takes_columns = True
    takes_where = True
    tabs = False

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Chosen columns and a header with tabs or without, or the names of the fields in it."""
        index = _header_index(sample, settings.columns)
        line = sample.lines[index]
        if ("\t" in line) != self.tabs:
            return None
        if settings.columns is not None:
            if sample_objects(sample):
                return None
            where = f"line {index + 1}" if index else "its first line"
            return f"{where} has {'tabs' if self.tabs else 'no tabs'} and the columns were given"
        where = f"the header on line {index + 1}" if index else "its header"
        named = _plain_names(line) >= set(REQUIRED)
        return f"{where} names user, time and query" if named else None

    def layout(self, sample: Sample, settings: ReadSettings) -> DelimitedLayout:
        """The separator that the header has most of, and its columns."""
        columns, file = settings.columns, sample.file
        index = _header_index(sample, columns)
        first = sample.lines[index]
        header: str | None = first
        separator = "\t" if self.tabs else max(_SEPARATORS, key=first.count)
        try:
            fields = csv.reader([first], delimiter=separator)
            names = first.split("\t") if self.tabs else next(fields, [])
        except csv.Error as error:
            where = f"line {index + 1}" if index else "its first line"
            raise LogError(f"{file}: {where} is not CSV ({error})") from None
        if columns is not None and all(map(_NUMBER.fullmatch, columns.values())):
            header = None
            positions = {field: int(number) - 1 for field, number in columns.items()}
            for field, position in positions.items():
                if not 0 <= position < len(names):
                    raise LogError(
                        f"{file}: `columns` has {field}={position + 1}, but its first line has "
                        f"{len(names)} columns"
                    )
            where_names = [str(number) for number in range(1, len(names) + 1)]
        else:
            names_by_field = find_columns(file, columns, names)
            positions = {field: names.index(name) for field, name in names_by_field.items()}
            where_names = [name.strip() for name in names]
        return DelimitedLayout(
            separator=separator,
            widths=(len(names),),
            user=positions["user"],
            time=positions["time"],
            query=positions["query"],
            click=positions.get("click"),
            header=header,
            header_line=index + 1,
            quoted=not self.tabs,
            where=_placed(sample, settings, where_names),
        )


class TsvFormat(CsvFormat):
    """Lines of fields between tabs."""

    name = "tsv"
    tabs = True


def _header_index(sample: Sample, columns: Mapping[str, str] | None) -> int:
    """Which of the first lines has the wanted names: reports have a title above the header.

    If none has, the line that looks like a header, so that its names can be shown; the first one
    if the columns are numbers.
    """
    columns_sought = set(columns.values()) if columns else set(REQUIRED)
    if all(map(_NUMBER.fullmatch, columns_sought)):
        return 0
    names = _names if columns else _plain_names
    for index, line in enumerate(sample.lines[:LONGEST_PREAMBLE]):
        if names(line) >= columns_sought:
            return index
    header = likely_header(sample.lines) if columns else None
    return header.position if header else 0


def _names(line: str) -> set[str]:
    return {name.strip('" ') for name in re.split("[,;|\t]", line)}


def _plain_names(line: str) -> set[str]:
    """Default names may be written in capitals."""
    return {name.casefold() for name in _names(line)}


def _placed(
    sample: Sample, settings: ReadSettings, names: Sequence[str]
) -> tuple[tuple[Condition, int], ...]:
    """The conditions of `where` and the positions of their columns."""
    conditions = settings.conditions()
    check_conditions(sample.file, conditions, names)
    return tuple((condition, names.index(condition.column)) for condition in conditions)


HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
AOL_LAYOUT = DelimitedLayout(
    separator="\t", widths=(3, 5), user=0, query=1, time=2, click=4, header=HEADER
)
_ORDER = ("user", "query", "time")
_AOL_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")


class AolFormat(LineFormat):
    """Lines of 5 fields, or of 3 where nothing was clicked; the header may be missing."""

    name = "aol"
    takes_where = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """The header, or lines whose third field is a time."""
        if settings.columns is not None:
            return None
        first = sample.lines[0]
        if first.lower() == HEADER.lower():
            return f"its first line is the header {', '.join(first.split(chr(9)))}"
        # Not a header of names that tsv has, perhaps in another order.
        is_tsv = {*map(str.casefold, first.split("\t"))} >= set(REQUIRED)
        if is_tsv or in_other_order(first, _ORDER):
            return None
        if most_rows_match(sample.lines, (3, 5), lambda fields: _AOL_TIME.match(fields[2])):
            return "most of its first lines are user, query and time, between tabs"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> DelimitedLayout:
        """The AOL layout with the header as this file spells it."""
        check_order(sample, _ORDER)
        layout = replace(AOL_LAYOUT, where=_placed(sample, settings, HEADER.split("\t")))
        if sample.lines[0].lower() == HEADER.lower():
            return replace(layout, header=sample.lines[0])
        return layout


EXCITE_LAYOUT = DelimitedLayout(
    separator="\t", widths=(3,), user=0, time=1, query=2, click=None, time_pattern="%y%m%d%H%M%S"
)
_EXCITE_TIME = re.compile(r"\d{12}")


class ExciteFormat(LineFormat):
    """Lines of 3 fields, no clicks, no header."""

    name = "excite"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Lines whose second field is a time of twelve digits."""
        if settings.columns is None and most_rows_match(
            sample.lines, (3,), lambda fields: _EXCITE_TIME.fullmatch(fields[1])
        ):
            return "most of its first lines are user, yymmddhhmmss and query"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> DelimitedLayout:
        """The same for every file."""
        check_order(sample, ("user", "time", "query"))
        return EXCITE_LAYOUT

"""CSV and TSV logs: a header, or numbers, says which column is which.

CSV fields stand between `,` `;` or `|` and may be quoted; TSV fields stand between tabs, and a
quote is an ordinary character.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nextquery.errors import LogError
from nextquery.logs.formats.layouts.columns import REQUIRED, find_columns
from nextquery.logs.formats.layouts.delimited_format import DelimitedFormat
from nextquery.logs.formats.layouts.delimited_layout import DelimitedLayout
from nextquery.logs.formats.layouts.header_lines import LONGEST_PREAMBLE, likely_header
from nextquery.logs.formats.layouts.json_fields import sample_objects
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings

_SEPARATORS = (",", ";", "|")
_NUMBER = re.compile("[0-9]{1,9}")


class CsvFormat(DelimitedFormat):
    """Lines of fields between commas, semicolons or bars, as the first line has it."""

    name = "csv"
    takes_columns = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Chosen columns and no tab in the header, or a header with the names of the fields."""
        if "\t" in sample.lines[_header_index(sample, settings.columns)]:
            return None
        return _recognise(sample, settings, "has no tabs")

    def layout(self, sample: Sample, settings: ReadSettings) -> DelimitedLayout:
        """The separator that the header has most of, and its columns."""
        index = _header_index(sample, settings.columns)
        first = sample.lines[index] if sample.lines else ""
        separator = max(_SEPARATORS, key=first.count)
        try:
            names = next(csv.reader([first], delimiter=separator), [])
        except csv.Error as error:
            where = f"line {index + 1}" if index else "its first line"
            raise LogError(f"{sample.file}: {where} is no CSV ({error})") from None
        return _layout(sample, settings.columns, separator, names, quoted=True)


class TsvFormat(DelimitedFormat):
    """Lines of fields between tabs."""

    name = "tsv"
    takes_columns = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Chosen columns and a tab in the header, or a header with the names of the fields."""
        if "\t" not in sample.lines[_header_index(sample, settings.columns)]:
            return None
        return _recognise(sample, settings, "has tabs")

    def layout(self, sample: Sample, settings: ReadSettings) -> DelimitedLayout:
        """The columns of the header."""
        index = _header_index(sample, settings.columns)
        names = sample.lines[index].split("\t") if sample.lines else []
        return _layout(sample, settings.columns, "\t", names, quoted=False)


def _recognise(sample: Sample, settings: ReadSettings, seen: str) -> str | None:
    index = _header_index(sample, settings.columns)
    if settings.columns is not None:
        if sample_objects(sample):
            return None
        where = f"line {index + 1}" if index else "its first line"
        return f"{where} {seen} and the columns were given"
    where = f"the header on line {index + 1}" if index else "its header"
    named = _plain_names(sample.lines[index]) >= set(REQUIRED)
    return f"{where} names user, time and query" if named else None


def _header_index(sample: Sample, columns: Mapping[str, str] | None) -> int:
    """Which of the first lines has the wanted names: reports have a title above the header.

    If none has, the line that looks like a header, so that its names can be told; the first one
    if the columns are numbers.
    """
    wanted = set(columns.values()) if columns else set(REQUIRED)
    if all(map(_NUMBER.fullmatch, wanted)):
        return 0
    lines = sample.lines[:LONGEST_PREAMBLE]
    names = _names if columns else _plain_names
    found = next((index for index, line in enumerate(lines) if names(line) >= wanted), None)
    if found is not None or not columns:
        return found or 0
    header = likely_header(sample.lines)
    return header.place if header else 0


def _names(line: str) -> set[str]:
    return {name.strip('" ') for name in re.split("[,;|\t]", line)}


def _plain_names(line: str) -> set[str]:
    """Names that nobody chose may be written in capitals."""
    return {name.casefold() for name in _names(line)}


def _layout(
    sample: Sample,
    columns: Mapping[str, str] | None,
    separator: str,
    names: Sequence[str],
    quoted: bool,
) -> DelimitedLayout:
    index = _header_index(sample, columns)
    by_number = bool(columns) and all(map(_NUMBER.fullmatch, (columns or {}).values()))
    if columns and by_number:
        places = {field: int(number) - 1 for field, number in columns.items()}
        _check_places(sample.file, places, len(names))
    else:
        wanted = find_columns(sample.file, columns, names) if sample.lines else {}
        places = {field: names.index(name) for field, name in wanted.items()}
    return DelimitedLayout(
        separator=separator,
        widths=(max(len(names), 1),),
        user=places.get("user", 0),
        time=places.get("time", 0),
        query=places.get("query", 0),
        click=places.get("click"),
        header=None if by_number else "".join(sample.lines[index : index + 1]),
        header_line=1 if by_number else index + 1,
        quoted=quoted,
    )


def _check_places(file: Path, places: Mapping[str, int], width: int) -> None:
    for field, place in places.items():
        if not 0 <= place < width:
            raise LogError(
                f"{file}: `columns` has {field}={place + 1}, but its first line has {width} columns"
            )

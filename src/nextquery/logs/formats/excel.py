"""Excel workbooks (.xlsx, .xls): the first sheet whose header has the wanted columns.

They are read by calamine (extra `excel`). A sheet has at most 1,048,576 rows, which are held in
memory.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nextquery.errors import LogError, MissingDependencyError, missing_message
from nextquery.logs.formats.base import (
    REQUIRED,
    FileBlock,
    LogFormat,
    check_conditions,
    find_columns,
)
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import WORKBOOKS, LogFile, Sample
from nextquery.logs.reading.rows import ParsedRows, Row, rows_frame, validate_rows
from nextquery.logs.reading.times import parse_times
from nextquery.logs.settings import Condition, ReadSettings

_FIELDS = ("user", "time_text", "query", "click")
_LARGEST = 400_000_000
"""Bytes of the unpacked sheets; a million rows of a search log take half of it."""
_BLOCK_ROWS = 50_000
_BLOCK_CHARACTERS = 8_000_000
_LONGEST_PREAMBLE = 30

_MOST_CELLS = 1_048_576 * 20
"""A sheet as long as Excel allows, with 20 columns; a cell takes some 30 bytes, even empty."""
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_CELL = re.compile(rb'\br="([A-Z]{1,3})([0-9]{1,7})"')

_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(ValueError, LookupError, RuntimeError),
)

Cells = Sequence[Any]
Where = Sequence[tuple[Condition, int]]
"""Conditions, and the position of each one's column."""


class _Sheet(NamedTuple):
    """The rows of a sheet: `first` is the number of the first, `header` where the names are."""

    rows: Sequence[Cells]
    first: int
    header: int = 0


class ExcelFormat(LogFormat):
    """One row per row of a sheet; rows above the header are left out."""

    name = "excel"
    takes_columns = True
    takes_where = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """The mark at the start of the file."""
        marked = sample.start.startswith(WORKBOOKS)
        return "it starts with the mark of an Excel workbook" if marked else None

    def blocks(self, file: LogFile, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The rows of the sheet below its header."""
        sheet = _find_sheet(sample.file, settings.columns)
        names = [_text(cell) or "" for cell in sheet.rows[sheet.header]]
        names_by_field = find_columns(sample.file, settings.columns, names)
        positions = {field: names.index(name) for field, name in names_by_field.items()}
        conditions = settings.conditions()
        check_conditions(sample.file, conditions, names)
        where = [(condition, names.index(condition.column)) for condition in conditions]
        size = sample.file.stat().st_size
        for start, end in _blocks(sheet.rows, sheet.header + 1):
            part = sheet.rows[start:end]
            position = size * (start + len(part)) // len(sheet.rows)
            parse = partial(_parse, part, positions, where, sheet.first + start, settings.time_zone)
            # Rows are numbered as in the sheet: rows above the first one count with it.
            above = sheet.first + sheet.header if start == sheet.header + 1 else 0
            yield FileBlock(len(part) + above, position, parse)


def _blocks(rows: Sequence[Cells], first: int) -> Iterator[tuple[int, int]]:
    """Where blocks begin and end: bounded in rows, and in the characters of their texts."""
    start, characters = first, 0
    for number in range(first, len(rows)):
        length = sum(len(cell) for cell in rows[number] if isinstance(cell, str))
        if number - start == _BLOCK_ROWS or (
            characters and characters + length > _BLOCK_CHARACTERS
        ):
            yield start, number
            start, characters = number, 0
        characters += length
    if start < len(rows):
        yield start, len(rows)


def _parse(
    rows: Sequence[Cells], positions: Mapping[str, int], where: Where, first: int, time_zone: str
) -> ParsedRows:
    frame = rows_frame([_row(cells, positions, where) for cells in rows], _FIELDS, first)
    return validate_rows(frame, parse_times(frame["time_text"], time_zone))


def _row(cells: Cells, positions: Mapping[str, int], where: Where) -> Row:
    row = {field: _cell(cells, position) for field, position in positions.items()}
    shown = "\t".join(filter(None, row.values()))
    row |= {"time_text": row["time"], "click": row.get("click"), "text": shown}
    if any(
        ((_cell(cells, position) or "") == condition.value) != condition.equal
        for condition, position in where
    ):
        row["reason"] = rejects.FILTERED
    return row


def _cell(cells: Cells, position: int) -> str | None:
    return _text(cells[position]) if position < len(cells) else None


def _text(cell: Any) -> str | None:
    """A cell as it would be typed: whole numbers without a point, times as ISO 8601."""
    if cell is None or cell == "":
        return None
    if isinstance(cell, datetime):
        return cell.isoformat(" ")
    if isinstance(cell, date):
        return f"{cell.isoformat()} 00:00:00"
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def _find_sheet(path: Path, columns: Mapping[str, str] | None) -> _Sheet:
    """The first sheet that has the columns; if none has, the first one.

    Its header is then the row that looks like one, so that its names can be shown.
    """
    columns_sought = set(columns.values()) if columns else set(REQUIRED)
    sheets = []
    for sheet in _sheets(path):
        for number, cells in enumerate(sheet.rows[:_LONGEST_PREAMBLE]):
            names = [_text(cell) or "" for cell in cells]
            # Names that the user did not choose may be written in capitals.
            if columns_sought <= set(names if columns else map(str.casefold, names)):
                return sheet._replace(header=number)
        sheets += [sheet] if sheet.rows else []
    if not sheets:
        raise LogError(f"{path}: a workbook without rows")
    # The first of the top rows with the most names: titles have one or two.
    top = sheets[0].rows[:_LONGEST_PREAMBLE]
    widths = [sum(isinstance(cell, str) and cell != "" for cell in cells) for cells in top]
    return sheets[0]._replace(header=widths.index(max(widths)))


def _sheets(path: Path) -> Iterator[_Sheet]:
    """The rows of each sheet of a workbook."""
    try:
        import python_calamine
    except ModuleNotFoundError:
        raise MissingDependencyError(missing_message("python_calamine") or "") from None
    _check_size(path)
    try:
        with python_calamine.load_workbook(path) as book:
            for name in book.sheet_names:
                sheet = book.get_sheet_by_name(name)
                start = sheet.start or (0, 0)
                yield _Sheet(sheet.to_python(), start[0] + 1)
    except BaseException as error:
        # A panic of the library is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _unreadable(path, error) from None


def _check_size(path: Path) -> None:
    """Refuse what is not a workbook, and small files that would unpack to huge tables."""
    with path.open("rb") as file:
        if not file.read(4).startswith(b"PK"):
            return  # .xls has at most 16 million cells
    try:
        with zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
            if size > _LARGEST:
                raise LogError(f"{path}: a workbook that unpacks to {size:,} bytes; save it as CSV")
            sheets = [name for name in parts.namelist() if _SHEET.fullmatch(name)]
            cells = sum(_cells(parts, name) for name in sheets)
    except _DAMAGED as error:
        raise _unreadable(path, error) from None
    if not sheets:
        raise LogError(f"{path}: no Excel workbook; unpack it, or save its sheet as CSV")
    if cells > _MOST_CELLS:
        raise LogError(f"{path}: a workbook whose sheets span {cells:,} cells; save it as CSV")


def _cells(parts: zipfile.ZipFile, name: str) -> int:
    """How many cells the table of a sheet spans, by the furthest row and column (`AA` is 27)."""
    furthest, width = 0, 0
    with parts.open(name) as sheet:
        rest = b""
        while chunk := sheet.read(1 << 20):
            cells = _CELL.findall(rest + chunk)
            furthest = max(furthest, max((int(row) for _, row in cells), default=0))
            for letters in {letters for letters, _ in cells}:
                number = 0
                for letter in letters:
                    number = 26 * number + letter - ord("A") + 1
                width = max(width, number)
            rest = chunk[-20:]
    return furthest * width


def _unreadable(path: Path, error: BaseException) -> LogError:
    reason = "".join(filter(str.isprintable, str(error)))[:200] or type(error).__name__
    return LogError(f"{path}: cannot be read as a workbook ({reason})")

"""Where the header of a table probably stands: exporters write titles and dates above it.

A guess for messages that ask for columns, never a reason to read a log as something.
"""

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

LONGEST_PREAMBLE = 30
_SEPARATORS = ("\t", ",", ";", "|")
_LIKE_IT = 3
"""So many lines after a header have as many fields as it has."""
_NAME = re.compile(r"[^\W\d_][\w.@# ()/-]{0,39}")


class HeaderLine(NamedTuple):
    """Where a header stands among the first lines, counted from 0, and its names."""

    place: int
    names: tuple[str, ...]


def likely_header(lines: Sequence[str]) -> HeaderLine | None:
    """The first line of several different names that is followed by rows of the same width.

    >>> rows = ("7;red shoes;1.3.2024 10:00", "7;blue shoes;1.3.2024 10:01")
    >>> likely_header(("# Site search", "", "Visitor ID;Term;Date", *rows))
    HeaderLine(place=2, names=('Visitor ID', 'Term', 'Date'))
    """
    for index, line in enumerate(lines[:LONGEST_PREAMBLE]):
        for separator in _SEPARATORS:
            names = _fields(line, separator)
            if _are_names(names) and _rows_follow(lines[index + 1 :], separator, len(names)):
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


def _rows_follow(lines: Sequence[str], separator: str, width: int) -> bool:
    following = [line for line in lines if line.strip()][:_LIKE_IT]
    rows = [_fields(line, separator) for line in following]
    # In a row something is no name: a number, a time, an empty field.
    return bool(rows) and all(len(row) == width and not _are_names(row) for row in rows)

"""Which rows of a log remain, and where they stand once the others are gone.

Rows are told by their place: all rows of all files, counted from 1. A log without some of its rows
has the others in the same order, each moved up by the rows that went before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
import polars as pl

from nextquery.logs.reading.read_logs import FileRows

_NEAREST: tuple[Literal["backward", "forward"], ...] = ("backward", "forward")


@dataclass(frozen=True)
class Removal:
    """What goes: the rows of users, told by pseudonym, and the rows before a time."""

    users: frozenset[str] = frozenset()
    before: datetime | None = None

    def goes(self) -> pl.Expr:
        """Whether a row with `user` and `time` goes; what is unknown stays."""
        goes = pl.col("user").is_in(sorted(self.users)).fill_null(False)
        if self.before is not None:
            goes = goes | (pl.col("time") < self.before).fill_null(False)
        return goes


@dataclass(frozen=True)
class Places:
    """The places of the rows that go, in order, and the files of the log as it was."""

    removed: Any  # an array of int64
    files: Sequence[FileRows]

    def moved(self, places: pl.Series) -> pl.Series:
        """Where rows that stay stand afterwards.

        >>> Places(np.array([2, 3]), [FileRows("log", 5)]).moved(pl.Series([1, 4, 5])).to_list()
        [1, 2, 3]
        """
        shift = np.searchsorted(self.removed, places.to_numpy())
        return pl.Series(places.name, places.to_numpy() - shift, dtype=pl.Int64)

    def lines(self, places: pl.Series) -> pl.Series:
        """The line in its file, afterwards, of rows that stay.

        >>> files = [FileRows("one", 5), FileRows("two", 5)]
        >>> Places(np.array([2, 7]), files).lines(pl.Series([3, 6, 8])).to_list()
        [2, 1, 2]
        """
        starts = self._starts()
        before = starts[np.searchsorted(starts, places.to_numpy(), side="left") - 1]
        left = before - np.searchsorted(self.removed, before, side="right")
        return pl.Series("line", self.moved(places).to_numpy() - left, dtype=pl.Int64)

    def remaining_files(self) -> tuple[FileRows, ...]:
        """The files with the rows that they have left; those that have none are gone."""
        gone = np.diff(np.searchsorted(self.removed, self._starts(), side="right"))
        left = [
            FileRows(file.file, file.rows - int(lost))
            for file, lost in zip(self.files, gone, strict=True)
        ]
        return tuple(file for file in left if file.rows)

    def _starts(self) -> Any:
        """How many rows stand before each file, and in all."""
        return np.cumsum([0, *(file.rows for file in self.files)])


def find_places(
    rows: pl.LazyFrame, rejected: pl.DataFrame, files: Sequence[FileRows], removal: Removal
) -> Places:
    """The places of accepted `rows` and of `rejected` ones (place, user, time) that go."""
    accepted = rows.filter(removal.goes()).select("place").collect(engine="streaming")
    dated = rejected if removal.before is None else _dated(rejected, rows, files)
    others = dated.filter(removal.goes())["place"]
    removed = np.sort(np.concatenate([accepted["place"].to_numpy(), others.to_numpy()]))
    return Places(removed, files)


def _dated(rejected: pl.DataFrame, rows: pl.LazyFrame, files: Sequence[FileRows]) -> pl.DataFrame:
    """Rejected rows with a time each.

    One without a time of its own has that of the accepted row nearest before it in its file, or
    else after it.
    """
    ends = np.cumsum([file.rows for file in files])

    def in_file(table: pl.DataFrame) -> pl.DataFrame:
        number = np.searchsorted(ends, table["place"].to_numpy(), side="left")
        return table.with_columns(pl.Series("file_number", number, dtype=pl.Int64)).sort("place")

    times = in_file(rows.select("place", near="time").collect(engine="streaming"))
    found = in_file(rejected.select("place", "user", "time"))
    for strategy in _NEAREST:
        joined = found.join_asof(times, on="place", by="file_number", strategy=strategy)
        found = joined.with_columns(time=pl.coalesce("time", "near")).drop("near")
    return found

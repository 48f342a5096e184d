"""The table engine interface: Narwhals over Polars, DuckDB or Spark, and the table schemas."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import narwhals as nw
import polars as pl

from nextquery.logs.reading.open import LogFile

INSTANT = pl.Datetime("us")

TEXTS = pl.Schema({"raw_id": pl.Int64(), "query": pl.String(), "drop": pl.String()})
"""What a raw query becomes, and why its rows are left out (null: they are kept)."""

USERS = pl.Schema({"user_id": pl.Int64(), "user": pl.Int64()})
"""The pseudonym of a user."""

WORDS = pl.Schema({"query_id": pl.Int64(), "word": pl.String(), "next_word": pl.String()})
"""The words of a query, each with the word after it (null for the last)."""

CORRECTED = pl.Schema({"query_id": pl.Int64(), "query": pl.String(), "changes": pl.String()})
"""A query with its spelling corrected, and which words were changed."""

JOURNAL = pl.Schema(
    {
        "place": pl.Int64(),
        "user": pl.String(),
        "time": INSTANT,
        "query": pl.String(),
        "click": pl.String(),
        "drop": pl.String(),
    }
)
"""A row of the log after cleaning; `drop` says why its query was left out (null: it was kept)."""

SESSIONS = pl.Schema(
    {
        "session": pl.Int64(),
        "position": pl.Int32(),
        "user": pl.String(),
        "time": INSTANT,
        "query": pl.String(),
        "clicks": pl.Int32(),
    }
)

_COUNTED = {"count": pl.Int64(), "users": pl.Int64()}
_IN_SESSIONS = {"session_count": pl.Int64(), "session_users": pl.Int64()}
COUNTS = {
    "queries": pl.Schema({"query": pl.String(), **_COUNTED, **_IN_SESSIONS}),
    "words": pl.Schema({"word": pl.String(), **_COUNTED, **_IN_SESSIONS}),
    "word_pairs": pl.Schema({"first": pl.String(), "second": pl.String(), **_COUNTED}),
    "followers": pl.Schema({"anchor": pl.String(), "next": pl.String(), **_COUNTED}),
    "clicks": pl.Schema({"query": pl.String(), "url": pl.String(), **_COUNTED}),
}
"""The count tables by name: their texts, how often they were typed, and by how many users.

`count` and `users` are of all searches; `session_count` and `session_users` are of those in
sessions of two or more queries. Followers need such a session.
"""


Frame: TypeAlias = nw.LazyFrame[Any]
Rows: TypeAlias = "nw.LazyFrame[Any] | nw.DataFrame[Any]"
BatchFunction: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]

T = TypeVar("T")
U = TypeVar("U")

ROW_GROUP = 1 << 18


class Engine(ABC):
    """What the stages ask of an engine; what every engine can do in the same way is done here."""

    name: str

    @abstractmethod
    def scan(self, folder: Path) -> Frame:
        """The rows of all Parquet files of a folder."""

    @abstractmethod
    def materialise(self, frame: Frame, name: str) -> Frame:
        """The same rows, computed once and then read."""

    @abstractmethod
    def apply(self, frame: Frame, function: BatchFunction, schema: pl.Schema, name: str) -> Frame:
        """What `function` makes of the rows, batch by batch, kept."""

    @abstractmethod
    def encode(
        self, frame: Frame, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """Replace texts by integers, kept: `columns` names the text and its id, null stays null.

        Returns the rows and a dictionary for each column (id, text). Ids sort as their texts do,
        so that nothing has to be sorted by text later, except those of `unordered` columns.
        """

    def lookup(self, frame: Frame, table: Frame, key: str) -> Frame:
        """Add the other columns of `table`, a dictionary or what `apply` made of one, by id."""
        return frame.join(table, on=key, how="left")

    def count_with_users(self, frame: Frame, keys: Sequence[str]) -> Frame:
        """How many rows each combination of ids has (`count`), and of how many users (`users`)."""
        by_user = frame.group_by("user_id", *keys).agg(count=nw.len())
        return by_user.group_by(*keys).agg(count=nw.col("count").sum(), users=nw.len())

    def sort_rows(self, frame: Frame, name: str) -> Rows:
        """The rows such that `ordered` sees them by user, time and row: here, its windows sort."""
        return self.materialise(frame, name)

    def by_users(
        self, rows: Rows, function: Callable[[Rows], tuple[Frame, ...]], names: Sequence[str]
    ) -> tuple[Frame, ...]:
        """What `function` makes of the rows of `sort_rows`, kept under these names.

        It may be given the rows of some users at a time, so it must not look beyond a user.
        """
        frames = function(rows)
        return tuple(self.materialise(*named) for named in zip(frames, names, strict=True))

    def ordered(self, expression: nw.Expr) -> nw.Expr:
        """An expression that looks at earlier or later rows, over the rows of `sort_rows`."""
        return expression.over("user_id", order_by=["time", "row"])

    @abstractmethod
    def write(
        self,
        frame: Frame,
        file: Path,
        schema: pl.Schema,
        by: Sequence[str],
        texts: Mapping[str, Frame] = {},
    ) -> int:
        """Write the rows sorted by `by` (`-name`: highest first); returns how many there were.

        `texts` has tables to `lookup` by their keys, for engines that do so as they write.
        """

    def side_by_side(self, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
        """What two jobs give that do not depend on each other."""
        return first(), second()

    @abstractmethod
    def close(self) -> None:
        """Release the engine's resources."""


def count_rows(frame: Frame) -> int:
    """The number of rows."""
    return int(frame.select(nw.len()).collect("polars").item())


def sort_keys(by: Sequence[str]) -> tuple[list[str], list[bool]]:
    """`["-count", "query"]` as column names and which of them go downwards."""
    return [key.removeprefix("-") for key in by], [key.startswith("-") for key in by]


AUTO = "auto"
_LOOK = 4 << 20
_BYTES_PER_BYTE = 2.4
_AT_LEAST = 400 << 20
"""Measured for Polars: 0.9 GB for a log of 254 MB, 5.6 GB for one of 2.5 GB."""
_SHARE = 0.7
"""The share of the free memory that may be used."""
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")


class EngineChoice(NamedTuple):
    """An engine's name, and why it was chosen."""

    name: str
    reason: str


def choose_engine(logs: Sequence[Path], free: int | None = None) -> EngineChoice:
    """Polars or DuckDB for these files, by their size and the free memory (in bytes)."""
    size = sum(map(unpacked_size, logs))
    memory = free_memory() if free is None else free
    needed = int(size * _BYTES_PER_BYTE) + _AT_LEAST
    fits = needed <= memory * _SHARE
    return EngineChoice(
        "polars" if fits else "duckdb",
        f"the log has about {size / 1e6:,.0f} MB, for which Polars needs about "
        f"{needed / 1e9:.1f} GB of {memory / 1e9:.1f} GB free",
    )


def unpacked_size(path: Path) -> int:
    """About how many bytes a file has when it is unpacked, by its first few megabytes."""
    with LogFile(path) as file:
        start = len(next(file.chunks(_LOOK), b""))
        read = file.position()
    size = path.stat().st_size
    return size if file.compression is None or not read else size * start // read


def free_memory() -> int:
    """The memory that the process may still take, in bytes."""
    limits = [_physical_memory(), *(max(0, limit - used) for limit, used in _cgroup_memory())]
    memory = Path("/proc/meminfo")
    if memory.exists():
        fields = dict(line.split(":") for line in memory.read_text().splitlines())
        if "MemAvailable" in fields:
            limits.append(int(fields["MemAvailable"].split()[0]) * 1024)
    return min(limits)


def allowed_memory() -> int:
    """The memory that the process may take in all: the machine's, or its container's if less."""
    return min([_physical_memory(), *(limit for limit, _ in _cgroup_memory())])


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cgroup_memory() -> list[tuple[int, int]]:
    """Limit and use of the process's control groups that have a limit, versions 1 and 2.

    A container sees its own group as the root, whatever the path says.
    """
    if not _OWN_CGROUPS.exists():
        return []
    groups = []
    for line in _OWN_CGROUPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _CGROUPS / "memory" if controllers else _CGROUPS
        names = _VERSION_1 if controllers else _VERSION_2
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root) and (limit := _number(folder / names[0])) is not None:
                groups.append((limit, _used(folder, *names[1:])))
    return groups


_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def _used(group: Path, usage: str, inactive: str) -> int:
    """Bytes in use, without the cached files that the kernel can drop."""
    statistics = group / "memory.stat"
    lines = statistics.read_text().splitlines() if statistics.exists() else []
    cached = sum(int(line.split()[1]) for line in lines if line.split()[0] == inactive)
    return max(0, (_number(group / usage) or 0) - cached)


def _number(file: Path) -> int | None:
    """The number in a file; None if there is none, as for `max`."""
    text = file.read_text().strip() if file.exists() else ""
    return int(text) if text.isdigit() else None

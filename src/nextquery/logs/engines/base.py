"""One table engine behind Narwhals: Polars in memory, DuckDB out of core, Spark on a cluster.

The stages write Narwhals expressions once. What engines do differently is the handful of methods
here: keep an intermediate table, apply a Python function to batches, realise the order of rows,
write sorted Parquet. Knows nothing of queries or sessions.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

import narwhals as nw
import polars as pl
import pyarrow as pa

from nextquery.logs.reading.part_files import PartWriter

Frame: TypeAlias = nw.LazyFrame[Any]
Rows: TypeAlias = "nw.LazyFrame[Any] | nw.DataFrame[Any]"
BatchFunction: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]

T = TypeVar("T")
U = TypeVar("U")

ROW_GROUP = 1 << 18
NO_TEXTS: Mapping[str, Any] = MappingProxyType({})


class Engine(Protocol):
    """What the stages ask of an engine."""

    name: str
    write_part: PartWriter
    """How a part of a folder that `scan_encoded` reads is written."""

    def scan(self, folder: Path) -> Frame:
        """The rows of all Parquet files of a folder."""
        ...

    def materialise(self, frame: Frame, name: str) -> Frame:
        """The same rows, computed once and read from then on."""
        ...

    def apply(self, frame: Frame, function: BatchFunction, schema: pa.Schema, name: str) -> Frame:
        """What `function` makes of the rows, batch by batch, kept."""
        ...

    def encode(
        self, frame: Frame, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """Replace texts by integers, kept: `columns` names the text and its id, null stays null.

        Returns the rows and a dictionary for each column (id, text). Ids sort as their texts do,
        so that nothing has to be sorted by text later, except those of `unordered` columns.
        """
        ...

    def scan_encoded(
        self, folder: Path, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """`encode` of `scan`."""
        ...

    def lookup(self, frame: Frame, table: Frame, key: str) -> Frame:
        """Add the other columns of `table`, a dictionary or what `apply` made of one, by id."""
        ...

    def count_with_users(self, frame: Frame, keys: Sequence[str]) -> Frame:
        """How many rows each combination of ids has (`count`), and of how many users (`users`)."""
        ...

    def sort_rows(self, frame: Frame, name: str) -> Rows:
        """The rows such that `ordered` sees them by user, time and row."""
        ...

    def by_users(
        self,
        rows: Rows,
        function: Callable[[Rows], tuple[Frame, ...]],
        names: Sequence[str],
    ) -> tuple[Frame, ...]:
        """What `function` makes of the rows of `sort_rows`, kept under these names.

        It may be given the rows of some users at a time, so it must not look beyond a user.
        """
        ...

    def ordered(self, expression: nw.Expr) -> nw.Expr:
        """An expression that looks at earlier or later rows, over the rows of `sort_rows`."""
        ...

    def write(
        self,
        frame: Frame,
        file: Path,
        schema: pa.Schema,
        by: Sequence[str],
        texts: Mapping[str, Frame] = NO_TEXTS,
    ) -> int:
        """Write the rows sorted by `by` (`-name`: highest first); returns how many there were.

        `texts` has tables to `lookup` by their keys, for engines that do so as they write.
        """
        ...

    def side_by_side(self, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
        """What two jobs give that do not depend on each other."""
        ...

    def close(self) -> None:
        """Give back what the engine holds."""
        ...


def sort_keys(by: Sequence[str]) -> tuple[list[str], list[bool]]:
    """`["-count", "query"]` as column names and which of them go downwards."""
    return [key.removeprefix("-") for key in by], [key.startswith("-") for key in by]


def count_rows_with_users(frame: Frame, keys: Sequence[str]) -> Frame:
    """`Engine.count_with_users` in expressions that every engine has."""
    by_user = frame.group_by("user_id", *keys).agg(count=nw.len())
    return by_user.group_by(*keys).agg(count=nw.col("count").sum(), users=nw.len())


def apply_to_batches(
    batches: Iterable[pa.RecordBatch], function: BatchFunction, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """What `function` makes of each batch, in the types of `schema`."""
    for batch in batches:
        result = function(pl.DataFrame(batch))
        yield from result.to_arrow().select(schema.names).cast(schema).to_batches()


def write_batches(batches: Iterable[pa.RecordBatch], file: Path, schema: pa.Schema) -> int:
    """Write one Parquet file in row groups of one size, however the batches were cut."""
    import pyarrow.parquet as pq  # takes a while, and the default engine does without it

    file.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with pq.ParquetWriter(file, schema) as writer:
        for table in _regroup(batches, schema):
            writer.write_table(table, row_group_size=ROW_GROUP)
            count += len(table)
    return count


def _regroup(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    pending = schema.empty_table()
    for batch in batches:
        pending = pa.concat_tables([pending, pa.Table.from_batches([batch]).cast(schema)])
        while len(pending) >= ROW_GROUP:
            yield pending.slice(0, ROW_GROUP)
            pending = pending.slice(ROW_GROUP)
    if len(pending):
        yield pending

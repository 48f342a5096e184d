"""The DuckDB engine, and what it shares with Spark: tables in files, batches as Arrow.

With DuckDB every intermediate table is a file, and sorts and joins spill to disk.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nextquery.logs.engines.base import (
    ROW_GROUP,
    BatchFunction,
    Engine,
    Frame,
    allowed_memory,
    sort_keys,
)

_ARROW_TYPES: Mapping[pl.DataType, pa.DataType] = {
    pl.Int64(): pa.int64(),
    pl.Int32(): pa.int32(),
    pl.String(): pa.string(),
    pl.Datetime("us"): pa.timestamp("us"),
}


def arrow_schema(schema: pl.Schema) -> pa.Schema:
    """The same columns in the types of Arrow."""
    return pa.schema({name: _ARROW_TYPES[kind] for name, kind in schema.items()})


def apply_to_batches(
    batches: Iterable[pa.RecordBatch], function: BatchFunction, schema: pl.Schema
) -> Iterator[pa.RecordBatch]:
    """What `function` makes of each batch, in the types of `schema`."""
    types = arrow_schema(schema)
    for batch in batches:
        result = function(pl.DataFrame(batch))
        yield from result.to_arrow().select(types.names).cast(types).to_batches()


def write_batches(batches: Iterable[pa.RecordBatch], file: Path, schema: pl.Schema) -> int:
    """Write one Parquet file in row groups of one size, however the batches were cut."""
    file.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    types = arrow_schema(schema)
    pending = types.empty_table()
    with pq.ParquetWriter(file, types) as writer:
        for batch in batches:
            count += len(batch)
            pending = pa.concat_tables([pending, pa.Table.from_batches([batch]).cast(types)])
            while len(pending) >= ROW_GROUP:
                writer.write_table(pending.slice(0, ROW_GROUP), row_group_size=ROW_GROUP)
                pending = pending.slice(ROW_GROUP)
        if len(pending):
            writer.write_table(pending, row_group_size=ROW_GROUP)
    return count


class RelationalEngine(Engine):
    """What is common to engines whose tables are files."""

    @abstractmethod
    def keep(self, rows: Any, name: str) -> Frame:
        """Write the rows of a query to files, and scan them."""

    @abstractmethod
    def number(self, frame: Frame, column: str, key: str, in_text_order: bool) -> Frame:
        """Distinct texts with an id each, kept."""

    @abstractmethod
    def write_rows(self, frame: Frame, file: Path, schema: pl.Schema) -> int:
        """Write rows that have an order; returns how many there were."""

    def materialise(self, frame: Frame, name: str) -> Frame:
        """The same rows, in files."""
        return self.keep(frame.to_native(), name)

    def encode(
        self, frame: Frame, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """Number the distinct texts and join the numbers."""
        dictionaries = []
        for column, key in columns.items():
            known = frame.filter(~nw.col(column).is_null()).select(column).unique()
            dictionary = self.number(known, column, key, column not in unordered)
            dictionaries.append(dictionary)
            frame = frame.join(dictionary, on=column, how="left").drop(column)
        return self.materialise(frame, "-".join(["encoded", *columns.values()])), dictionaries

    def write(
        self,
        frame: Frame,
        file: Path,
        schema: pl.Schema,
        by: Sequence[str],
        texts: Mapping[str, Frame] = {},
    ) -> int:
        """Join the texts, sort the rows and write them."""
        for key, table in texts.items():
            frame = self.lookup(frame, table, key)
        names, downwards = sort_keys(by)
        rows = frame.sort(names, descending=downwards).select(*schema.names())
        return self.write_rows(rows, file, schema)


_MOST_MEMORY = 2048
"""MB. What does not fit is spilled to disk: that is what this engine is for."""


class DuckdbEngine(RelationalEngine):
    """DuckDB: for a log that does not fit in memory."""

    name = "duckdb"

    def __init__(self, work: Path) -> None:
        import duckdb  # an extra of its own, which Spark does not need

        self._work = work
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET temp_directory = $1", [str(work / "spill")])
        self._connection.execute(f"SET memory_limit = '{_memory_limit()}MB'")
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET TimeZone = 'UTC'")

    def scan(self, folder: Path) -> Frame:
        """The rows of all Parquet files of a folder."""
        # By name, not by pattern: a folder may have brackets in its name.
        files = [str(file) for file in sorted(folder.glob("*.parquet"))]
        return nw.from_native(self._connection.read_parquet(files))

    def apply(self, frame: Frame, function: BatchFunction, schema: pl.Schema, name: str) -> Frame:
        """What `function` makes of the rows, batch by batch."""
        batches = frame.to_native().to_arrow_reader(ROW_GROUP)
        file = self._file(name)
        write_batches(apply_to_batches(batches, function, schema), file, schema)
        return self.scan(file.parent)

    def write_rows(self, frame: Frame, file: Path, schema: pl.Schema) -> int:
        """Write the rows of a query, row group by row group."""
        return write_batches(frame.to_native().to_arrow_reader(ROW_GROUP), file, schema)

    def close(self) -> None:
        """Close the connection and with it the spilled files."""
        self._connection.close()

    def number(self, frame: Frame, column: str, key: str, in_text_order: bool) -> Frame:
        """Distinct texts, numbered by a window."""
        order = f"order by {column}" if in_text_order else ""
        rows = frame.to_native().project(f"*, row_number() over ({order}) as {key}")
        return self.keep(rows, f"dictionary-{key}")

    def keep(self, rows: Any, name: str) -> Frame:
        """Write the rows of a query to one file, and scan it."""
        file = self._file(name)
        rows.write_parquet(str(file))
        return self.scan(file.parent)

    def _file(self, name: str) -> Path:
        folder = self._work / name
        folder.mkdir(parents=True)
        return folder / "part-00000.parquet"


def _memory_limit() -> int:
    """MB that the tables may take: a quarter of the memory, from 1 to 2 GB, and at most half."""
    allowed = allowed_memory() >> 20
    return min(_MOST_MEMORY, max(1024, allowed // 4), max(64, allowed // 2))

"""The DuckDB engine: every intermediate table is a file, sorts and joins spill to disk."""

from pathlib import Path

import duckdb
import narwhals as nw
import polars as pl

from nextquery.logs.engines.base import ROW_GROUP, BatchFunction, Frame, allowed_memory
from nextquery.logs.engines.relational import RelationalEngine, apply_to_batches, write_batches

_MOST_MEMORY = 2048
"""MB. What does not fit is spilled to disk: that is what this engine is for."""


class DuckdbEngine(RelationalEngine):
    """DuckDB: for a log that does not fit in memory."""

    name = "duckdb"

    def __init__(self, work: Path) -> None:
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

    def materialise(self, frame: Frame, name: str) -> Frame:
        """The same rows, in a file of their own."""
        return self._keep(frame.to_native(), name)

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
        """Distinct texts with an id each, kept."""
        order = f"order by {column}" if in_text_order else ""
        rows = frame.to_native().project(f"*, row_number() over ({order}) as {key}")
        return self._keep(rows, f"dictionary-{key}")

    def _keep(self, rows: duckdb.DuckDBPyRelation, name: str) -> Frame:
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

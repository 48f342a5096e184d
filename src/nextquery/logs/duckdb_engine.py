"""The DuckDB engine: every intermediate table is a file, sorts and joins spill to disk."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import duckdb
import narwhals as nw
import pyarrow as pa

from nextquery.logs.engine import (
    ROW_GROUP,
    BatchFunction,
    Frame,
    Lookups,
    Rows,
    T,
    U,
    apply_to_batches,
    sort_keys,
    tally_rows,
    write_batches,
)
from nextquery.logs.raw.parts import PartWriter, write_parquet


class DuckdbEngine:
    """DuckDB: for a log that does not fit in memory."""

    name = "duckdb"
    write_part: PartWriter = staticmethod(write_parquet)

    def __init__(self, work: Path) -> None:
        self._work = work
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET temp_directory = $1", [str(work / "spill")])
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET TimeZone = 'UTC'")

    def scan(self, folder: Path) -> Frame:
        """The rows of all Parquet files of a folder."""
        return nw.from_native(self._connection.read_parquet(str(folder / "*.parquet")))

    def keep(self, frame: Frame, name: str) -> Frame:
        """The same rows, in a file of their own."""
        return self._keep(frame.to_native(), name)

    def apply(self, frame: Frame, function: BatchFunction, schema: pa.Schema, name: str) -> Frame:
        """What `function` makes of the rows, batch by batch."""
        batches = frame.to_native().to_arrow_reader(ROW_GROUP)
        file = self._file(name)
        write_batches(apply_to_batches(batches, function, schema), file, schema)
        return self.scan(file.parent)

    def encode(
        self, frame: Frame, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """Number the distinct texts and join the numbers."""
        dictionaries = []
        for column, key in columns.items():
            known = frame.filter(~nw.col(column).is_null()).select(column).unique()
            dictionary = self._number(known, column, key, column not in unordered)
            dictionaries.append(dictionary)
            frame = frame.join(dictionary, on=column, how="left").drop(column)
        return self.keep(frame, "-".join(["encoded", *columns.values()])), dictionaries

    def scan_encoded(
        self, folder: Path, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """`encode` of `scan`."""
        return self.encode(self.scan(folder), columns, unordered)

    def lookup(self, frame: Frame, table: Frame, key: str) -> Frame:
        """Join the other columns of `table`."""
        return frame.join(table, on=key, how="left")

    def tally(self, frame: Frame, keys: Sequence[str]) -> Frame:
        """Group by user and ids, then by ids."""
        return tally_rows(frame, keys)

    def in_order(self, frame: Frame, name: str) -> Rows:
        """The rows as they are: the windows of `ordered` sort them."""
        return self.keep(frame, name)

    def ordered(self, expression: nw.Expr) -> nw.Expr:
        """The expression over a user's rows by time and row."""
        return expression.over("user_id", order_by=["time", "row"])

    def write(
        self,
        frame: Frame,
        file: Path,
        schema: pa.Schema,
        by: Sequence[str],
        lookups: Lookups = (),
    ) -> int:
        """Write the rows sorted."""
        for table, key in lookups:
            frame = self.lookup(frame, table, key)
        names, downwards = sort_keys(by)
        rows = frame.sort(names, descending=downwards).select(*schema.names).to_native()
        return write_batches(rows.to_arrow_reader(ROW_GROUP), file, schema)

    def side_by_side(self, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
        """Run them one after the other: each uses all cores."""
        return first(), second()

    def close(self) -> None:
        """Close the connection and with it the spilled files."""
        self._connection.close()

    def _number(self, frame: Frame, column: str, key: str, in_text_order: bool) -> Frame:
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

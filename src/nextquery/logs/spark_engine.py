"""The Spark engine: the same stages on a cluster, or on one machine with `local[*]`.

The driver's work folder and `--out` must be on a file system that all workers share.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import monotonically_increasing_id
from pyspark.sql.pandas.types import from_arrow_schema

from nextquery.logs.engine import (
    ROW_GROUP,
    BatchFunction,
    Frame,
    Rows,
    apply_to_batches,
    sort_keys,
    write_batches,
)


class SparkEngine:
    """Spark: for a log that outgrows one machine."""

    name = "spark"

    def __init__(self, work: Path, master: str) -> None:
        self._work = work
        # Python workers start whatever `python3` is on their path unless told.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self._spark = (
            SparkSession.builder.master(master)
            .appName("nextquery prepare")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )

    def scan(self, folder: Path) -> Frame:
        """The rows of all Parquet files of a folder."""
        return nw.from_native(self._spark.read.parquet(folder.resolve().as_uri()))

    def keep(self, frame: Frame, name: str) -> Frame:
        """The same rows, in files of their own."""
        return self._keep(frame.to_native(), name)

    def apply(self, frame: Frame, function: BatchFunction, schema: pa.Schema, name: str) -> Frame:
        """What `function` makes of the rows, batch by batch, on the workers."""

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return apply_to_batches(batches, function, schema)

        rows = frame.to_native().mapInArrow(run, from_arrow_schema(schema))
        return self._keep(rows, name)

    def number(self, frame: Frame, column: str, name: str) -> Frame:
        """The rows with unique numbers, which leave gaps."""
        return self._keep(frame.to_native().withColumn(column, monotonically_increasing_id()), name)

    def in_order(self, frame: Frame, name: str) -> Rows:
        """The rows as they are: the windows of `ordered` sort them."""
        return self.keep(frame, name)

    def ordered(self, expression: nw.Expr) -> nw.Expr:
        """The expression over a user's rows by time and row."""
        return expression.over("user", order_by=["time", "row"])

    def write(self, frame: Frame, file: Path, schema: pa.Schema, by: Sequence[str]) -> int:
        """Sort on the workers, then copy the sorted parts into one file."""
        names, downwards = sort_keys(by)
        rows = frame.select(*schema.names).sort(names, descending=downwards)
        name = f"sorted-{file.parent.name}-{file.stem}"
        self.keep(rows, name)
        return write_batches(_read_in_order(self._work / name), file, schema)

    def close(self) -> None:
        """End the Spark application."""
        self._spark.stop()

    def _keep(self, rows: DataFrame, name: str) -> Frame:
        folder = self._work / name
        rows.write.parquet(folder.resolve().as_uri())
        return self.scan(folder)


def _read_in_order(folder: Path) -> Iterator[pa.RecordBatch]:
    for file in sorted(folder.glob("part-*.parquet")):
        yield from pq.ParquetFile(file).iter_batches(ROW_GROUP)

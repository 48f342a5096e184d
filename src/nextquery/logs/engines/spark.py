"""The Spark engine: the same stages on a cluster, or on one machine with `local[*]`.

The driver's work folder and the data folder must be on a file system that all workers share.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import narwhals as nw
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.cloudpickle import dumps
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import monotonically_increasing_id
from pyspark.sql.pandas.types import from_arrow_schema

from nextquery.errors import InputError, MissingDependencyError
from nextquery.logs.engines.base import ROW_GROUP, BatchFunction, Frame
from nextquery.logs.engines.relational import (
    RelationalEngine,
    apply_to_batches,
    arrow_schema,
    write_batches,
)

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


class SparkEngine(RelationalEngine):
    """Spark: for a log that outgrows one machine."""

    name = "spark"

    def __init__(self, work: Path, master: str) -> None:
        if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
            raise MissingDependencyError("the engine spark needs Java 17 or newer: install a JRE")
        self._work = work
        builder = SparkSession.builder.master(master).appName("nextquery")
        for key, value in _SETTINGS.items():
            builder = builder.config(key, value)
        self.session = _started(builder)
        if "PYSPARK_PYTHON" not in os.environ:
            # Workers would start whatever `python3` is on their path. Said to this session only:
            # the environment belongs to the program that uses the library.
            self.session.sparkContext.pythonExec = sys.executable
        if master.startswith("local"):
            # One machine gains nothing from Spark's 200 partitions: most would be empty files.
            partitions = self.session.sparkContext.defaultParallelism
            self.session.conf.set("spark.sql.shuffle.partitions", str(partitions))

    def scan(self, folder: Path) -> Frame:
        """The rows of all Parquet files of a folder."""
        # Not resolved: a link with a plain name may lead to a folder whose name Spark cannot open.
        return nw.from_native(self.session.read.parquet(folder.absolute().as_uri()))

    def materialise(self, frame: Frame, name: str) -> Frame:
        """The same rows, in files of their own."""
        return self._keep(frame.to_native(), name)

    def apply(self, frame: Frame, function: BatchFunction, schema: pl.Schema, name: str) -> Frame:
        """What `function` makes of the rows, batch by batch, on the workers."""

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return apply_to_batches(batches, function, schema)

        rows = frame.to_native().mapInArrow(run, from_arrow_schema(arrow_schema(schema)))
        return self._keep(rows, name)

    def write_rows(self, frame: Frame, file: Path, schema: pl.Schema) -> int:
        """Sort on the workers, then copy the sorted parts into one file."""
        name = "-".join(["sorted", *file.with_suffix("").parts[-3:]])
        self.materialise(frame, name)
        return write_batches(_read_in_order(self._work / name), file, schema)

    def close(self) -> None:
        """End the Spark application."""
        self.session.stop()

    def number(self, frame: Frame, column: str, key: str, in_text_order: bool) -> Frame:
        """Distinct texts with an id each, kept."""
        rows = frame.sort(column).to_native() if in_text_order else frame.to_native()
        rows = rows.withColumn(key, monotonically_increasing_id())
        return self._keep(rows, f"dictionary-{key}")

    def _keep(self, rows: DataFrame, name: str) -> Frame:
        folder = self._work / name
        rows.write.parquet(folder.absolute().as_uri())
        return self.scan(folder)


def check_sendable(recogniser: object, name: str) -> None:
    """Refuse a recogniser that cannot be sent to the workers, before the log is read."""
    try:
        dumps(recogniser)  # type: ignore[no-untyped-call]
    except Exception as error:  # objects fail to be pickled in many ways
        raise InputError(
            f"`recogniser` {name}: cannot be sent to Spark's workers ({error}); use a function of "
            "a module, or another `engine`"
        ) from None


def _started(builder: SparkSession.Builder) -> SparkSession:
    """Start Spark from a thread of its own: in the main one it takes Ctrl-C without asking."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(builder.getOrCreate).result()


def _read_in_order(folder: Path) -> Iterator[pa.RecordBatch]:
    for file in sorted(folder.glob("part-*.parquet")):
        yield from pq.ParquetFile(file).iter_batches(ROW_GROUP)

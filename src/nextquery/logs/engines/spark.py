"""The Spark engine: the same stages on a cluster, or on one machine with `local[*]`.

The driver's work folder and the data folder must be on a file system that all workers share.

`read_addresses` reads logs where only Spark can: `hdfs://`, `s3a://` and any other address it can
read. The workers parse their own lines with the same `parse_lines` that local files go through; the
driver sees the first lines of each file, counts and rejected rows only. Line numbers and the order
of rows follow the files, as on one machine. An address may name many files, and each has the
layout that its own header gives it.
"""

import codecs
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.cloudpickle import dumps
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.functions import monotonically_increasing_id
from pyspark.sql.pandas.types import from_arrow_schema

from nextquery.errors import InputError, LogError, MissingDependencyError
from nextquery.logs.engines.base import ROW_GROUP, BatchFunction, Frame
from nextquery.logs.engines.relational import (
    RelationalEngine,
    apply_to_batches,
    arrow_schema,
    write_batches,
)
from nextquery.logs.formats.base import LineFormat
from nextquery.logs.formats.detection import check_settings, choose_format
from nextquery.logs.reading.open import LONGEST_LINE, Sample
from nextquery.logs.reading.read_logs import FileRows, ReadResult, read_result
from nextquery.logs.reading.rejects import (
    GIVEN_UP,
    MOST_LISTED,
    OTHER_HEADER,
    REJECTED,
    FileStart,
    RejectedRows,
    hopeless,
    refuse_other_header,
)
from nextquery.logs.reading.rows import Layout, parse_lines
from nextquery.logs.settings import ReadSettings

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

    def apply(self, frame: Frame, function: BatchFunction, schema: pl.Schema, name: str) -> Frame:
        """What `function` makes of the rows, batch by batch, on the workers."""

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return apply_to_batches(batches, function, schema)

        rows = frame.to_native().mapInArrow(run, from_arrow_schema(arrow_schema(schema)))
        return self.keep(rows, name)

    def write_rows(self, frame: Frame, file: Path, schema: pl.Schema) -> int:
        """Sort on the workers, then copy the sorted parts into one file."""
        name = "-".join(["sorted", *file.with_suffix("").parts[-3:]])
        self.materialise(frame, name)
        parts = sorted((self._work / name).glob("part-*.parquet"))
        batches = (
            batch for part in parts for batch in pq.ParquetFile(part).iter_batches(ROW_GROUP)
        )
        return write_batches(batches, file, schema)

    def close(self) -> None:
        """End the Spark application."""
        self.session.stop()

    def number(self, frame: Frame, column: str, key: str, in_text_order: bool) -> Frame:
        """Distinct texts with an id each, kept."""
        rows = frame.sort(column).to_native() if in_text_order else frame.to_native()
        rows = rows.withColumn(key, monotonically_increasing_id())
        return self.keep(rows, f"dictionary-{key}")

    def keep(self, rows: Any, name: str) -> Frame:
        """Write the rows of a query to files, and scan them."""
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
    """Start Spark in a separate thread: in the main thread it takes over Ctrl-C."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(builder.getOrCreate).result()


_SAMPLE_LINES = 100
_INDEX_BITS = 33
"""Spark's increasing id has the partition above and the index in it below this bit."""
_PARSED = pa.schema(
    {
        "user": pa.string(),
        "time": pa.timestamp("us"),
        "query": pa.string(),
        "click": pa.string(),
        "row": pa.int64(),
        "file": pa.string(),
        "line": pa.int64(),
        "reason": pa.string(),
        "excerpt": pa.string(),
    }
)


def read_addresses(
    spark: SparkSession, addresses: Sequence[str], settings: ReadSettings, work: Path
) -> ReadResult:
    """Read logs by address into `work`, as `read_logs` reads files."""
    check_settings(settings)
    if settings.encoding != ReadSettings.encoding:
        raise LogError(
            f"`encoding` {settings.encoding}: Spark reads UTF-8 by address; convert first"
        )
    numbered, files = _numbered(spark, addresses)
    if not files:
        raise LogError(f"{', '.join(addresses)}: no rows (empty)")
    samples = _take_samples(numbered, files)
    choice = choose_format(list(samples.values()), settings)
    if not isinstance(choice.format, LineFormat):
        raise LogError(f"{choice.format.name} logs are read from local files only; copy them first")
    layouts = {file: choice.format.layout(sample, settings) for file, sample in samples.items()}
    parse = partial(_parse_batches, layouts, settings)
    rows = numbered.mapInArrow(parse, from_arrow_schema(_PARSED))
    rows.write.parquet((work / "parsed").absolute().as_uri())
    parsed = spark.read.parquet((work / "parsed").absolute().as_uri())
    reasons = _reasons(parsed)
    rows = parsed.filter("reason is null").select("user", "time", "query", "click", "row")
    rows.write.parquet((work / "rows").absolute().as_uri())
    bad = parsed.filter("reason is not null").select(
        "file", "line", "reason", "excerpt", "user", "time", sql.col("row").alias("place")
    )
    with RejectedRows(work / REJECTED, settings.excerpts) as rejected:
        rejected.add_counted(_listed(bad, reasons).sort("file", "line"), reasons)
    accepted = spark.read.parquet((work / "rows").absolute().as_uri()).count()
    return read_result(choice, accepted, rejected, settings, files)


def _take_samples(numbered: DataFrame, files: Sequence[FileRows]) -> dict[str, Sample]:
    """The first lines of every file, by its name, as `take_sample` gives them."""
    lines_of_file: dict[str, list[tuple[int, bytes]]] = {file.file: [] for file in files}
    first = numbered.filter(sql.col("line") <= _SAMPLE_LINES)
    for row in first.select("file", "line", sql.substring("text", 1, LONGEST_LINE)).collect():
        lines_of_file[row[0]].append((row[1], bytes(row[2])))
    samples = {}
    for name, lines in lines_of_file.items():
        texts = [text.decode("utf-8", "replace").removesuffix("\r") for _, text in sorted(lines)]
        texts[:1] = [text.removeprefix("\ufeff") for text in texts[:1]]
        samples[name] = Sample(Path(name), tuple(texts))
    return samples


def _numbered(
    spark: SparkSession, addresses: Sequence[str]
) -> tuple[DataFrame, tuple[FileRows, ...]]:
    """Every line with its file, its number in the file and in the whole log; and the files."""
    lines = spark.read.text(list(addresses), lineSep="\n").select(
        sql.col("value").cast("binary").alias("text"),  # bytes that are not UTF-8 stay as they are
        sql.input_file_name().alias("file"),
        sql.monotonically_increasing_id().alias("id"),
    )
    part = sql.shiftright("id", _INDEX_BITS).alias("part")
    sizes = lines.groupBy("file", part).agg(sql.min("id").alias("first"), sql.count("*").alias("n"))
    counted = sizes.collect()
    offsets = spark.createDataFrame(
        _offsets(counted), "file string, part long, shift long, before long"
    )
    joined = lines.withColumn("part", part).join(sql.broadcast(offsets), ["file", "part"])
    line = sql.col("id") + sql.col("shift")
    number = line + sql.col("before")
    rows: Counter[str] = Counter()
    for size in counted:
        rows[size["file"]] += size["n"]
    files = tuple(FileRows(file, rows[file]) for file in sorted(rows))
    return joined.select("text", "file", line.alias("line"), number.alias("row")), files


def _offsets(sizes: Sequence[Any]) -> list[tuple[str, int, int, int]]:
    """For each file's part: what turns an id into a line number, and the lines of earlier files."""
    ordered = sorted((size["file"], size["part"], size["first"], size["n"]) for size in sizes)
    offsets, before = [], 0
    for file, group in groupby(ordered, key=lambda size: size[0]):
        parts = list(group)
        starts = [0, *accumulate(size[3] for size in parts)]
        for (_, part, first, _), start in zip(parts, starts, strict=False):
            offsets.append((file, part, start + 1 - first, before))
        before += starts[-1]
    return offsets


def _parse_batches(
    layouts: Mapping[str, Layout], settings: ReadSettings, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Lines with their fields, or a reason; the rest of a file with a bad start is skipped."""
    starts: dict[str, FileStart] = {}
    given_up: set[str] = set()
    # The first line of a file may begin with a byte-order mark.
    marked = (pl.col("line") == 1) & pl.col("text").bin.starts_with(codecs.BOM_UTF8)
    bare = pl.col("text").bin.slice(len(codecs.BOM_UTF8))
    for batch in batches:
        for (file,), lines in pl.DataFrame(batch).group_by("file", maintain_order=True):
            name = str(file)
            if name in given_up:
                continue
            texts = lines.select("line", pl.when(marked).then(bare).otherwise("text").alias("text"))
            accepted, rejected = parse_lines(layouts[name], texts, settings.time_zone)
            if lines.item(0, "line") == 1:
                starts[name] = FileStart(settings.max_rejected)
            if name in starts and starts[name].add(len(accepted), rejected["reason"]):
                given_up.add(name)
                reasons = [*rejected["reason"][:-1], GIVEN_UP]  # for the driver to see
                rejected = rejected.with_columns(pl.Series("reason", reasons))
            parsed = pl.concat([accepted, rejected], how="diagonal_relaxed")
            placed = parsed.join(lines.select("line", "row", "file"), on="line")
            yield from placed.select(_PARSED.names).to_arrow().cast(_PARSED).to_batches()


def _reasons(parsed: DataFrame) -> Counter[str]:
    """The number of rejected rows per reason; a file with a bad start is refused."""
    by_file: dict[str, Counter[str]] = {}
    for row in parsed.filter("reason is not null").groupBy("file", "reason").count().collect():
        by_file.setdefault(row["file"], Counter())[row["reason"]] = row["count"]
    for file, counts in by_file.items():
        if counts.get(OTHER_HEADER):
            raise refuse_other_header(file)
        if counts.pop(GIVEN_UP, 0):
            raise hopeless(file, counts)
    return sum(by_file.values(), Counter())


def _listed(bad: DataFrame, reasons: Mapping[str, int]) -> pl.DataFrame:
    """The rejected rows, the first ones per reason, so that they fit into the driver's memory."""
    if sum(reasons.values()) <= MOST_LISTED:
        return pl.DataFrame(bad.toArrow())
    first = [
        bad.filter(sql.col("reason") == reason).orderBy("place").limit(MOST_LISTED).toArrow()
        for reason in sorted(reasons)
    ]
    return pl.concat([pl.DataFrame(row) for row in first])

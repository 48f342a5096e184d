"""Read raw logs of any known format into the canonical table and a list of rejects."""

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nextquery.artifacts.files import file_stamp
from nextquery.logs.engines.base import Engine, T, U
from nextquery.logs.engines.polars import PolarsEngine
from nextquery.logs.formats.base import STAGED_COLUMNS, JoinedFormat, LogFormat
from nextquery.logs.formats.detection import FormatChoice, check_settings, choose_format
from nextquery.logs.reading.open import LogFile, Sample, take_sample
from nextquery.logs.reading.rejects import (
    OTHER_HEADER,
    REJECTED,
    FileStart,
    RejectedRows,
    check_share,
    hopeless,
    printable,
    refuse_other_header,
)
from nextquery.logs.reading.rows import CANONICAL, ParsedRows
from nextquery.logs.settings import ReadSettings

_WORKERS = 2

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FileRows:
    """A file of the log, by its printable name, and its rows: lines, a header included."""

    file: str
    rows: int
    sha256: str = ""
    """Of its unpacked bytes; none for an address, and for a file that changed while it was read."""
    size: int = 0
    """Its unpacked bytes."""


@dataclass(frozen=True)
class ReadResult:
    """What was read: accepted and rejected rows together are the rows read."""

    format: str
    reason: str
    rows_read: int
    rows_accepted: int
    rows_rejected: int
    reasons: Mapping[str, int]
    files: tuple[FileRows, ...] = ()
    """The files that have rows, in order."""


class _PlacedBlock(NamedTuple):
    """A block of the log, still to be parsed; `rows_before` counts the rows of earlier files."""

    file: Path
    rows_before: int
    parse: Callable[[], ParsedRows]


class _Outcome(NamedTuple):
    file: Path
    accepted: int
    rejected: pl.DataFrame


def read_logs(
    paths: Sequence[Path],
    settings: ReadSettings,
    work: Path,
    progress: Progress = lambda done, total: None,
    engine: Engine | None = None,
) -> ReadResult:
    """Read all files into `work`; `progress` is called with bytes read and bytes in all.

    A format that is joined is joined by `engine`, if its tables are on this machine's disk.
    """
    check_settings(settings)
    samples = [take_sample(path, settings.encoding) for path in paths]
    choice = choose_format(samples, settings)
    files: list[FileRows] = []
    blocks = _blocks(samples, choice.format, settings, progress, files)
    work.mkdir(parents=True, exist_ok=True)
    with RejectedRows(work / REJECTED, settings.excerpts) as rejected:
        if isinstance(choice.format, JoinedFormat):
            accepted = _read_and_join(blocks, choice.format, work, rejected, settings, engine)
        else:
            accepted = _read(blocks, work / "rows", CANONICAL, rejected, settings)
    return read_result(choice, accepted, rejected, settings, files)


def read_result(
    choice: FormatChoice,
    accepted: int,
    rejected: RejectedRows,
    settings: ReadSettings,
    files: Sequence[FileRows],
) -> ReadResult:
    """What was read, unless too large a share of it was rejected."""
    reasons = rejected.most_common()
    check_share(accepted, reasons, settings.max_rejected)
    refused = sum(reasons.values())
    return ReadResult(
        choice.format.name,
        choice.reason,
        accepted + refused,
        accepted,
        refused,
        reasons,
        tuple(files),
    )


def _blocks(
    samples: Sequence[Sample],
    format: LogFormat,
    settings: ReadSettings,
    progress: Progress,
    files: list[FileRows],
) -> Iterator[_PlacedBlock]:
    """All files in order, in blocks to be parsed in parallel; each file is added to `files`."""
    sizes = [sample.file.stat().st_size for sample in samples]
    rows_before = 0
    for number, sample in enumerate(samples):
        if not sample.lines:
            continue
        rows, before = 0, file_stamp(sample.file)
        with LogFile(sample.file) as file:
            for block in format.blocks(file, sample, settings):
                yield _PlacedBlock(sample.file, rows_before, block.parse)
                rows += block.rows
                progress(sum(sizes[:number]) + block.position, sum(sizes))
            rows_before += rows
            if rows:
                content, name = file.content(), printable(sample.file)
                changed = file_stamp(sample.file) != before
                digest, size = ("", 0) if changed else (content.sha256, content.size)
                files.append(FileRows(name, rows, digest, size))


def _read(
    blocks: Iterable[_PlacedBlock],
    folder: Path,
    columns: Sequence[str],
    rejected: RejectedRows,
    settings: ReadSettings,
) -> int:
    """Write the accepted rows of all blocks to a new folder, and return their number."""

    def add(numbered: tuple[int, _PlacedBlock]) -> _Outcome:
        """Parse a block and write its accepted rows."""
        number, block = numbered
        file = pl.lit(printable(block.file)).alias("file")
        row_number = pl.col("line") + block.rows_before
        parsed = block.parse()
        if len(parsed.accepted):
            rows = parsed.accepted.with_columns(file, row=row_number).select(columns)
            part = folder / f"part-{number:05}.parquet"
            rows.write_parquet(part, compression="uncompressed", statistics=False)
        placed = parsed.rejected.with_columns(file, place=row_number)
        return _Outcome(block.file, len(parsed.accepted), placed)

    folder.mkdir()
    accepted = 0
    results = side_by_side(add, enumerate(blocks))
    for file, outcomes in groupby(results, lambda outcome: outcome.file):
        start = FileStart(settings.max_rejected)
        for outcome in outcomes:
            accepted += outcome.accepted
            other = outcome.rejected.filter(pl.col("reason") == OTHER_HEADER)["line"]
            if len(other):
                raise refuse_other_header(printable(file), other[0])
            rejected.add(outcome.rejected)
            if start.add(outcome.accepted, outcome.rejected["reason"]):
                raise hopeless(printable(file), start.bad)
    return accepted


def _read_and_join(
    blocks: Iterable[_PlacedBlock],
    format: JoinedFormat,
    work: Path,
    rejected: RejectedRows,
    settings: ReadSettings,
    engine: Engine | None,
) -> int:
    """Stage the rows of all blocks, then let the format join them."""
    staged, rows = work / "staged", work / "rows"
    rows.mkdir()
    try:
        if not _read(blocks, staged, STAGED_COLUMNS, rejected, settings):
            return 0
        # The staged rows are on this machine, so that Spark has nothing to distribute.
        on_disk = engine is not None and engine.name == "duckdb"
        joined = format.join(engine if engine and on_disk else PolarsEngine(), staged, rows)
        rejected.add(joined.rejected)
        return joined.written
    finally:
        shutil.rmtree(staged)


def side_by_side(work: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """Apply `work` to items in several threads, few at a time; keeps their order."""
    waiting: deque[Future[U]] = deque()
    with ThreadPoolExecutor(_WORKERS) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > _WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

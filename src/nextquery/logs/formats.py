"""Reading raw logs: files of any known format become the canonical table and a list of rejects.

    work/rows/part-*.parquet      user, time, query, click, row (see `rows`)
    work/rejected.ndjson.gz       file, line, reason and excerpt of every row not taken

Knows the whole reading job: which format the files have, how blocks of them are parsed side by
side, and when a log is too bad to go on. What is done with the rows is not its matter.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from nextquery.logs.compression import LogFile
from nextquery.logs.detection import Guess, Sample, detect, take_sample
from nextquery.logs.layouts import check_columns, layout_of
from nextquery.logs.lines import BLOCK_BYTES, Block, blocks
from nextquery.logs.rejects import RejectedRows, check_share
from nextquery.logs.rows import Layout, Parsed, parse_lines
from nextquery.logs.times import check_time_zone

Progress = Callable[[int, int], None]

_WORKERS = 2


@dataclass(frozen=True)
class ReadSettings:
    """How a raw log is read."""

    format: str = "auto"
    columns: Mapping[str, str] | None = None
    """Which column of a CSV, TSV, NDJSON or Parquet log is user, time, query and click."""
    time_zone: str = "UTC"
    """The zone of times that name none."""
    max_rejected: float = 0.05
    """The largest share of bad rows with which the job goes on."""


@dataclass(frozen=True)
class ReadResult:
    """What was read: accepted and rejected rows together are the rows read."""

    format: str
    reason: str
    rows_read: int
    rows_accepted: int
    rows_rejected: int
    reasons: Mapping[str, int]


@dataclass(frozen=True)
class _Piece:
    """A part of one file, still to be parsed; `rows_before` counts the lines of earlier files."""

    file: Path
    rows_before: int
    parse: Callable[[], Parsed]


@dataclass(frozen=True)
class _Outcome:
    file: Path
    accepted: int
    rejected: pl.DataFrame


def read_logs(
    paths: Sequence[Path],
    settings: ReadSettings,
    work: Path,
    progress: Progress | None = None,
) -> ReadResult:
    """Read all files into `work`; `progress` hears of bytes read and bytes in all."""
    check_time_zone(settings.time_zone)
    check_columns(settings.format, settings.columns)
    samples = [take_sample(path) for path in paths]
    guess = _choose(samples, settings)
    rows = work / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    accepted = 0
    with RejectedRows(work / "rejected.ndjson.gz") as rejected:
        pieces = _pieces(samples, guess.format, settings, progress or _silent)
        for outcome in _side_by_side(partial(_write_part, rows), pieces):
            accepted += outcome.accepted
            rejected.add(outcome.file, outcome.rejected)
    reasons = rejected.most_common()
    check_share(accepted, reasons, settings.max_rejected)
    refused = sum(reasons.values())
    return ReadResult(guess.format, guess.reason, accepted + refused, accepted, refused, reasons)


def _choose(samples: Sequence[Sample], settings: ReadSettings) -> Guess:
    if settings.format == "auto":
        return detect(samples, settings.columns is not None)
    return Guess(settings.format, "it was given with --format")


def _silent(done: int, total: int) -> None:
    """Nobody wants to hear of progress."""


def _pieces(
    samples: Sequence[Sample], format: str, settings: ReadSettings, progress: Progress
) -> Iterator[_Piece]:
    total = sum(sample.file.stat().st_size for sample in samples)
    rows_before = bytes_before = 0
    for sample in samples:
        layout = layout_of(format, settings.columns, sample)
        with LogFile(sample.file) as file:
            lines = 0
            for block in blocks(file.chunks(BLOCK_BYTES)):
                lines += block.count
                parse = partial(_parse_block, layout, settings.time_zone, block)
                yield _Piece(sample.file, rows_before, parse)
                progress(bytes_before + file.position(), total)
        rows_before += lines
        bytes_before += sample.file.stat().st_size


def _parse_block(layout: Layout, time_zone: str, block: Block) -> Parsed:
    return parse_lines(layout, block.frame(), time_zone)


def _write_part(folder: Path, number: int, piece: _Piece) -> _Outcome:
    accepted, rejected = piece.parse()
    if len(accepted):
        rows = accepted.with_columns(row=pl.col("line") + piece.rows_before).drop("line")
        # Read back once and thrown away: quick to write matters more than small.
        rows.write_parquet(folder / f"part-{number:05}.parquet", compression="lz4")
    return _Outcome(piece.file, len(accepted), rejected)


def _side_by_side(
    work: Callable[[int, _Piece], _Outcome], pieces: Iterable[_Piece]
) -> Iterator[_Outcome]:
    """Apply `work` to numbered pieces in several threads, few at a time; keeps their order."""
    waiting: deque[Future[_Outcome]] = deque()
    with ThreadPoolExecutor(_WORKERS) as pool:
        for number, piece in enumerate(pieces):
            waiting.append(pool.submit(work, number, piece))
            if len(waiting) > _WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

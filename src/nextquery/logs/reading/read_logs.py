"""Reading raw logs: files of any known format become the canonical table and a list of rejects.

    work/rows/part-*.parquet      user, time, query, click, row (see `rows`)
    work/rejected.ndjson.gz       file, line, reason and excerpt of every row not taken

Knows the whole reading job: which format the files have, how blocks of them are parsed side by
side, and when a log is too bad to go on. What is done with the rows is not its matter.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nextquery.logs.formats.detection import Guess, Sample, detect, take_sample
from nextquery.logs.formats.layouts import check_columns
from nextquery.logs.formats.ubi import STAGED, join_clicks
from nextquery.logs.reading.parts import PartWriter, write_parquet
from nextquery.logs.reading.pieces import Piece, Progress, cut
from nextquery.logs.reading.rejected_rows import RejectedRows, check_share
from nextquery.logs.reading.rows import CANONICAL
from nextquery.logs.reading.times import check_time_zone

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
class _Outcome:
    accepted: int
    rejected: pl.DataFrame


@dataclass(frozen=True)
class _Parts:
    """Where accepted rows go, which of their columns, and in which file format."""

    folder: Path
    columns: Sequence[str]
    write: PartWriter

    def add(self, number: int, piece: Piece) -> _Outcome:
        """Parse a piece and write its accepted rows."""
        file = pl.lit(str(piece.file)).alias("file")
        accepted, rejected = piece.parse()
        if len(accepted):
            row = pl.col("line") + piece.rows_before
            rows = accepted.with_columns(file, row=row).select(self.columns)
            self.write(rows, self.folder / f"part-{number:05}")
        return _Outcome(len(accepted), rejected.with_columns(file))


def read_logs(
    paths: Sequence[Path],
    settings: ReadSettings,
    work: Path,
    progress: Progress | None = None,
    write: PartWriter = write_parquet,
) -> ReadResult:
    """Read all files into `work`; `progress` hears of bytes read and bytes in all.

    `write` writes the parts, except those of a UBI log, which its join leaves as Parquet.
    """
    check_time_zone(settings.time_zone)
    check_columns(settings.format, settings.columns)
    samples = [take_sample(path) for path in paths]
    guess = _choose(samples, settings)
    pieces = cut(samples, guess.format, settings.columns, settings.time_zone, progress or _silent)
    work.mkdir(parents=True, exist_ok=True)
    with RejectedRows(work / "rejected.ndjson.gz") as rejected:
        if guess.format == "ubi":
            accepted = _read_and_join(pieces, work, rejected)
        else:
            accepted = _read(pieces, _Parts(work / "rows", CANONICAL, write), rejected)
    reasons = rejected.most_common()
    check_share(accepted, reasons, settings.max_rejected)
    refused = sum(reasons.values())
    return ReadResult(guess.format, guess.reason, accepted + refused, accepted, refused, reasons)


def _choose(samples: Sequence[Sample], settings: ReadSettings) -> Guess:
    if settings.format == "auto":
        return detect(samples, settings.columns is not None)
    return Guess(settings.format, "it was given by `format`")


def _silent(done: int, total: int) -> None:
    """Nobody wants to hear of progress."""


def _read(pieces: Iterable[Piece], parts: _Parts, rejected: RejectedRows) -> int:
    """Write the accepted rows of all pieces to a new folder, and return their number."""
    parts.folder.mkdir()
    accepted = 0
    for outcome in _side_by_side(parts.add, pieces):
        accepted += outcome.accepted
        rejected.add(outcome.rejected)
    return accepted


def _read_and_join(pieces: Iterable[Piece], work: Path, rejected: RejectedRows) -> int:
    """Stage queries and clicks, then give each click the query that it belongs to."""
    staged, rows = work / "staged", work / "rows"
    rows.mkdir()
    try:
        if not _read(pieces, _Parts(staged, STAGED, write_parquet), rejected):
            return 0
        joined = join_clicks(staged, rows)
        rejected.add(joined.unknown)
        return joined.rows
    finally:
        shutil.rmtree(staged)


def _side_by_side(
    work: Callable[[int, Piece], _Outcome], pieces: Iterable[Piece]
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

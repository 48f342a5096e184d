"""What a data folder is made again from: the rows that it has kept, and those of new logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from nextquery.errors import ArtifactError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.engines.opening import open_engine
from nextquery.logs.prepare import read_into
from nextquery.logs.reading.read_logs import FileRows, ReadResult
from nextquery.logs.reading.rejected_rows import OWNERS, REJECTED
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.revising.rejected_list import read_list
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.stages.cleaning import CleaningRules
from nextquery.logs.stages.journal import REJECTED_OWNERS, ROWS
from nextquery.logs.stages.numbered_rows import read_events
from nextquery.logs.stages.privacy import find_recogniser
from nextquery.logs.stages.splits import SplitRule
from nextquery.logs.tables import Progress

_READING = ("format", "columns", "time_zone", "max_rejected", "excerpts", "parameter")
_READING_LATER = ("encoding",)
"""Settings that folders of earlier versions do not name; these have the defaults."""
_PREPARING = (
    *("idle_minutes", "holdout_users", "vocabulary_size", "min_users", "spelling"),
    *("keep_personal_data", "drop_urls", "keep_robots", "engine", "spark_master"),
)


@dataclass(frozen=True)
class Material:
    """Rows, rejected rows and files, old ones before new ones."""

    rows: pl.LazyFrame
    """place, user, time, query, click, drop"""
    rejected: pl.DataFrame
    files: tuple[FileRows, ...]
    reasons: Mapping[str, int]
    """How many rows were rejected for each reason."""
    rows_read: int
    rows_added: int = 0


def recorded_settings(data: PreparedData, with_recogniser: bool) -> PrepareSettings:
    """The settings that a folder was prepared with; one without a journal is refused."""
    if ROWS not in data.artifact.manifest["files"]:
        raise ArtifactError(
            f"{data.path}: has no journal, which forgetting and updating need (it was prepared "
            "without one, or by an earlier nextquery); prepare the log again, without the rows "
            "that must go"
        )
    found = data.artifact.entry("settings")
    cuts = ",".join(f"{time}+00:00" for time in found["split_at"])
    place = found.get("recogniser")
    return PrepareSettings(
        read=ReadSettings(
            **{name: found[name] for name in _READING},
            **{name: found[name] for name in _READING_LATER if name in found},
        ),
        split_at=cuts if found["split_by"] == "times" else None,
        split_days=found.get("split_days"),
        recogniser=find_recogniser(place) if place and with_recogniser else None,
        **{name: found[name] for name in _PREPARING},
    )


def gather(
    source: PreparedData,
    settings: PrepareSettings,
    logs: Sequence[str | Path],
    work: Path,
    progress: Progress,
) -> Material:
    """The folder's own rows, and behind them those of new logs, read and cleaned."""
    manifest = source.artifact.manifest
    old = Material(
        pl.scan_parquet(source.file(ROWS), glob=False),
        read_list(source.file(REJECTED), source.file(REJECTED_OWNERS)),
        tuple(FileRows(**file) for file in manifest["logs"]),
        manifest["counts"]["rejected"],
        manifest["counts"]["rows_read"],
    )
    return _with_new(old, _read_new(settings, logs, work, progress), work) if logs else old


def _with_new(old: Material, read: ReadResult, work: Path) -> Material:
    place = pl.col("place") + sum(file.rows for file in old.files)
    rows = pl.scan_parquet(work / "rows.parquet", glob=False).with_columns(place)
    rejected = read_list(work / REJECTED, work / OWNERS).with_columns(place)
    reasons = dict(old.reasons)
    for reason, count in read.reasons.items():
        reasons[reason] = reasons.get(reason, 0) + count
    return Material(
        pl.concat([old.rows, rows]),
        pl.concat([old.rejected, rejected]),
        old.files + read.files,
        reasons,
        old.rows_read + read.rows_read,
        read.rows_read,
    )


def _read_new(
    settings: PrepareSettings, logs: Sequence[str | Path], work: Path, progress: Progress
) -> ReadResult:
    """Read and clean new logs into a journal of their own."""
    work.mkdir()
    engine = open_engine(settings.engine, work, settings.spark_master)
    try:
        read = read_into(engine, logs, settings, work, progress)
        progress("cleaning", 0)
        rules = CleaningRules(settings.keep_personal_data, settings.drop_urls, settings.recogniser)
        nobody = SplitRule((datetime.min, datetime.min, datetime.min)).held_out()
        read_events(engine, work / "rows", nobody, rules, work / "rows.parquet")
    finally:
        engine.close()
    return read

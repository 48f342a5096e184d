"""A data folder made again from its journal: without some rows, with those of new logs.

The result is what `prepare` would make of the log without these rows and with the new files at its
end, byte for byte, but for what the manifest says of the revision itself.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nextquery.artifacts import publish
from nextquery.errors import LogError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.engines.opening import open_engine
from nextquery.logs.formats.base import JoinedFormat
from nextquery.logs.formats.table import format_named
from nextquery.logs.reading.rejected_rows import OWNERS, REJECTED
from nextquery.logs.revising.kept_rows import Places, Removal, find_places
from nextquery.logs.revising.material import Material, gather, recorded_settings
from nextquery.logs.revising.rejected_list import count_unattributed, write_list
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.stages.journal import REJECTED_OWNERS, ROWS, read_journal
from nextquery.logs.tables import Progress, split_rule, write_tables

Choose = Callable[[pl.LazyFrame], Removal]
"""Says what goes, given all rows (place, user, time, ...), old and new."""


@dataclass(frozen=True)
class Revision:
    """What became of a data folder."""

    rows_removed: int
    """Accepted and rejected rows that went."""
    rows_added: int
    users_removed: int
    """How many of the users to be removed had rows, accepted or rejected."""
    unattributed_excerpts: int
    """Rejected rows with an excerpt of which nobody can say whose they are."""
    counts: Mapping[str, Any]
    revisions: Sequence[Mapping[str, Any]]
    """What the manifest says of this revision and of those before it."""


@dataclass(frozen=True)
class _Kept:
    """What goes, where the rest then stands, and how many rejected rows went for each reason."""

    removal: Removal
    places: Places
    rejected_gone: Mapping[str, int]
    users_gone: int


def revise(
    data: Path,
    out: Path,
    logs: Sequence[str | Path],
    choose: Choose,
    note: Callable[[int], Mapping[str, Any]],
    progress: Progress = lambda stage, share: None,
) -> Revision:
    """Make `out` of the folder `data` and new `logs`, without the rows that `choose` names.

    `note` makes of the number of removed users what the manifest says of the revision.
    """
    source = PreparedData(data)
    settings = recorded_settings(source, with_recogniser=bool(logs))
    entries: dict[str, Any] = {}
    with publish(out, "data", entries) as folder:
        work = folder / "work"
        work.mkdir(mode=0o700)
        material = gather(source, settings, logs, work / "new", progress)
        kept = _keep(material, choose(material.rows), folder, settings)
        entries |= _make_tables(folder, settings, progress)
        (folder / OWNERS).replace(folder / REJECTED_OWNERS)
        entries |= _whole_log(entries, source, material, kept)
        entries["revisions"] = _revisions(source, note(kept.users_gone))
        shutil.rmtree(work)
        source.artifact.check_current()
    return Revision(
        len(kept.places.removed),
        material.rows_added,
        kept.users_gone,
        count_unattributed(material.rejected),
        entries["counts"],
        entries["revisions"],
    )


def _keep(material: Material, removal: Removal, folder: Path, settings: PrepareSettings) -> _Kept:
    """Write the rows that stay: for the engine, and the list of rejected ones."""
    places = find_places(material.rows, material.rejected, material.files, removal)
    _write_part(material.rows, removal, places, folder / "work" / "journal", settings)
    excerpts = settings.read.excerpts
    gone = write_list(material.rejected, places, folder / REJECTED, excerpts)
    return _Kept(removal, places, gone, _count_users(material, removal))


def _write_part(
    rows: pl.LazyFrame, removal: Removal, places: Places, folder: Path, settings: PrepareSettings
) -> None:
    folder.mkdir()
    kept = rows.filter(~removal.goes()).with_columns(
        pl.col("place").map_batches(places.moved, return_dtype=pl.Int64)
    )
    joined = isinstance(format_named(settings.read.format), JoinedFormat)
    row = pl.int_range(1, pl.len() + 1, dtype=pl.Int64) if joined else pl.col("place")
    file = folder / "part-00000.parquet"
    kept.with_columns(row=row).sink_parquet(file, compression="uncompressed", statistics=False)
    if not pl.scan_parquet(file, glob=False).select(pl.len()).collect().item():
        raise LogError("no row would be left")


def _count_users(material: Material, removal: Removal) -> int:
    if not removal.users:
        return 0
    named = pl.col("user").is_in(sorted(removal.users))
    accepted = material.rows.filter(named).select("user").unique().collect(engine="streaming")
    rejected = material.rejected.filter(named)["user"]
    return len({*accepted["user"], *rejected})


def _make_tables(folder: Path, settings: PrepareSettings, progress: Progress) -> dict[str, Any]:
    rows = folder / "work" / "journal"
    engine = open_engine(settings.engine, folder / "work", settings.spark_master)
    try:
        rule = split_rule(engine.scan(rows), settings)
        kept = partial(read_journal, engine, rows, rule.held_out(), folder / ROWS)
        found = write_tables(engine, folder, settings, rule, kept, progress)
    finally:
        engine.close()
    progress("publishing", 0)
    return {
        "counts": found["counts"],
        "settings": {"split_at": [time.isoformat() for time in rule.cuts]},
        "spelling": found["spelling"],
    }


def _whole_log(
    entries: Mapping[str, Any], source: PreparedData, material: Material, kept: _Kept
) -> dict[str, Any]:
    """What the manifest says of the whole log, as `prepare` would."""
    gone = kept.rejected_gone
    left = {reason: count - gone.get(reason, 0) for reason, count in material.reasons.items()}
    rejected, read = sum(left.values()), material.rows_read - len(kept.places.removed)
    reasons = sorted(left.items(), key=lambda item: (-item[1], item[0]))
    counts = {
        "rows_read": read,
        "rows_accepted": read - rejected,
        "rows_rejected": rejected,
        "rejected": {reason: count for reason, count in reasons if count},
    }
    return {
        "counts": counts | entries["counts"],
        "settings": {**source.artifact.entry("settings"), **entries["settings"]},
        "logs": [asdict(file) for file in kept.places.remaining_files()],
    }


def _revisions(source: PreparedData, note: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    return [*source.artifact.manifest.get("revisions", ()), {"date": day, **note}]

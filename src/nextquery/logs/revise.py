"""Rebuild a data folder from its journal: forget users, add days, drop old days."""

import gzip
import io
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np
import polars as pl

from nextquery.artifacts import publish
from nextquery.errors import ArtifactError, InputError, LogError
from nextquery.logs.cleaning import REJECTED_OWNERS, ROWS, read_events, read_journal
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.engines import open_engine
from nextquery.logs.formats.base import JoinedFormat
from nextquery.logs.formats.detection import format_named
from nextquery.logs.prepare import Progress, read_into, split_rule, write_tables, write_titles
from nextquery.logs.privacy import find_recogniser, pseudonym
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import find_files, hash_content
from nextquery.logs.reading.read_logs import FileRows
from nextquery.logs.reading.rejects import OWNERS, REJECTED, RejectedRows, printable
from nextquery.logs.sessions import SplitRule
from nextquery.logs.settings import PrepareSettings, ReadSettings

_NEAREST: tuple[Literal["backward", "forward"], ...] = ("backward", "forward")


@dataclass(frozen=True)
class Removal:
    """Which rows are removed: those of users, by pseudonym, and those before a time."""

    users: frozenset[str] = frozenset()
    before: datetime | None = None

    def is_removed(self) -> pl.Expr:
        """Whether a row with `user` and `time` is removed; a row without them stays."""
        goes = pl.col("user").is_in(sorted(self.users)).fill_null(False)
        if self.before is not None:
            goes = goes | (pl.col("time") < self.before).fill_null(False)
        return goes


@dataclass(frozen=True)
class Places:
    """The places of the removed rows, in order, and the files of the log as it was."""

    removed: Any  # an array of int64
    files: Sequence[FileRows]

    def moved(self, places: pl.Series) -> pl.Series:
        """The new places of rows that stay.

        >>> Places(np.array([2, 3]), [FileRows("log", 5)]).moved(pl.Series([1, 4, 5])).to_list()
        [1, 2, 3]
        """
        shift = np.searchsorted(self.removed, places.to_numpy())
        return pl.Series(places.name, places.to_numpy() - shift, dtype=pl.Int64)

    def lines(self, places: pl.Series) -> pl.Series:
        """The line in its file, afterwards, of rows that stay.

        >>> files = [FileRows("one", 5), FileRows("two", 5)]
        >>> Places(np.array([2, 7]), files).lines(pl.Series([3, 6, 8])).to_list()
        [2, 1, 2]
        """
        starts = self._starts()
        before = starts[np.searchsorted(starts, places.to_numpy(), side="left") - 1]
        left = before - np.searchsorted(self.removed, before, side="right")
        return pl.Series("line", self.moved(places).to_numpy() - left, dtype=pl.Int64)

    def remaining_files(self) -> tuple[FileRows, ...]:
        """The files with the rows that they have left; those that have none are gone."""
        removed_rows = np.diff(np.searchsorted(self.removed, self._starts(), side="right"))
        left = [
            replace(file, rows=file.rows - int(lost))
            for file, lost in zip(self.files, removed_rows, strict=True)
        ]
        return tuple(file for file in left if file.rows)

    def _starts(self) -> Any:
        """The number of rows before each file, and of all rows."""
        return np.cumsum([0, *(file.rows for file in self.files)])


def find_places(
    rows: pl.LazyFrame, rejected: pl.DataFrame, files: Sequence[FileRows], removal: Removal
) -> Places:
    """The places of accepted `rows` and of `rejected` ones (place, user, time) to remove."""
    accepted = rows.filter(removal.is_removed()).select("place").collect(engine="streaming")
    dated = rejected if removal.before is None else _dated(rejected, rows, files)
    rejected_places = dated.filter(removal.is_removed())["place"]
    removed = np.sort(np.concatenate([accepted["place"].to_numpy(), rejected_places.to_numpy()]))
    return Places(removed, files)


def _dated(rejected: pl.DataFrame, rows: pl.LazyFrame, files: Sequence[FileRows]) -> pl.DataFrame:
    """Rejected rows with a time each.

    One without a time of its own has that of the accepted row nearest before it in its file, or
    else after it.
    """
    ends = np.cumsum([file.rows for file in files])

    def in_file(table: pl.DataFrame) -> pl.DataFrame:
        number = np.searchsorted(ends, table["place"].to_numpy(), side="left")
        return table.with_columns(pl.Series("file_number", number, dtype=pl.Int64)).sort("place")

    times = in_file(rows.select("place", near="time").collect(engine="streaming"))
    dated = in_file(rejected.select("place", "user", "time"))
    for strategy in _NEAREST:
        joined = dated.join_asof(times, on="place", by="file_number", strategy=strategy)
        dated = joined.with_columns(time=pl.coalesce("time", "near")).drop("near")
    return dated


_LISTED = {"file": pl.String, "line": pl.Int64, "reason": pl.String, "excerpt": pl.String}


def read_list(listed: Path, owners: Path) -> pl.DataFrame:
    """The listed rows with what is known of each: place, user and time."""
    text = gzip.decompress(listed.read_bytes())
    rows = (
        pl.read_ndjson(io.BytesIO(text), schema=_LISTED) if text else pl.DataFrame(schema=_LISTED)
    )
    return pl.concat([rows, pl.read_parquet(owners)], how="horizontal")


def write_list(rows: pl.DataFrame, places: Places, file: Path, excerpts: bool) -> dict[str, int]:
    """Write the list without the rows at the removed places; returns how many went, by reason."""
    is_removed = rows["place"].is_in(places.removed.tolist())
    # As one reading lists them: rows that a join left out come last; a reason's list ends.
    late = pl.col("reason").is_in([rejects.UNKNOWN_QUERY, rejects.TYPED_FURTHER])
    kept = rows.filter(~is_removed).sort(late, maintain_order=True)
    kept = kept.filter(pl.int_range(pl.len()).over("reason") < rejects.MOST_LISTED)
    moved = kept.with_columns(places.moved(kept["place"]), places.lines(kept["place"]))
    with RejectedRows(file, excerpts) as rejected:
        rejected.write(moved)
    return dict(rows.filter(is_removed)["reason"].value_counts().iter_rows())


def count_unattributed(rows: pl.DataFrame) -> int:
    """How many listed rows show an excerpt and name nobody."""
    return rows.filter(pl.col("user").is_null() & pl.col("excerpt").is_not_null()).height


_READING = (
    *("format", "columns", "time_zone", "max_rejected", "excerpts", "parameter"),
    *("encoding", "where"),
)
_PREPARING = (
    *("idle_minutes", "holdout_users", "vocabulary_size", "min_users", "spelling"),
    *("keep_personal_data", "drop_urls", "keep_robots", "engine", "spark_master"),
)
_PREPARING_LATER = ("max_session_queries", "max_user_repeats", "max_user_share", "exclude_users")
"""Settings that folders of earlier versions do not name; these have the defaults."""


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
    recorded = data.artifact.entry("settings")
    cuts = ",".join(f"{time}+00:00" for time in recorded["split_at"])
    location = recorded.get("recogniser")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in recorded.items()
    }
    return PrepareSettings(
        read=ReadSettings(**{name: values[name] for name in _READING if name in values}),
        split_at=cuts if recorded["split_by"] == "times" else None,
        split_days=recorded.get("split_days"),
        recogniser=find_recogniser(location) if location and with_recogniser else None,
        **{name: values[name] for name in (*_PREPARING, *_PREPARING_LATER) if name in values},
    )


def gather(
    source: PreparedData,
    settings: PrepareSettings,
    logs: Sequence[str | Path],
    work: Path,
    progress: Progress,
) -> Material:
    """The rows of the folder, then those of new logs, read and cleaned."""
    manifest = source.artifact.manifest
    old = Material(
        pl.scan_parquet(source.file(ROWS), glob=False),
        read_list(source.file(REJECTED), source.file(REJECTED_OWNERS)),
        tuple(FileRows(**file) for file in manifest["logs"]),
        manifest["counts"]["rejected"],
        manifest["counts"]["rows_read"],
    )
    if not logs:
        return old
    work.mkdir()
    engine = open_engine(settings.engine, work, settings.spark_master)
    try:
        read = read_into(engine, logs, settings, work, progress)
        progress("cleaning", 0)
        nobody = SplitRule((datetime.min, datetime.min, datetime.min)).held_out()
        read_events(engine, work / "rows", nobody, settings, work / "rows.parquet")
    finally:
        engine.close()
    shifted = pl.col("place") + sum(file.rows for file in old.files)
    rows = pl.scan_parquet(work / "rows.parquet", glob=False).with_columns(shifted)
    rejected = read_list(work / REJECTED, work / OWNERS).with_columns(shifted)
    return Material(
        pl.concat([old.rows, rows]),
        pl.concat([old.rejected, rejected]),
        old.files + read.files,
        Counter(old.reasons) + Counter(read.reasons),
        old.rows_read + read.rows_read,
        read.rows_read,
    )


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
    users_not_found: tuple[str, ...] = ()
    """Which of the users to be removed had no rows."""


def _revise(
    data: Path,
    out: Path,
    logs: Sequence[str | Path],
    users: frozenset[str],
    keep_days: int | None,
    progress: Progress,
) -> Revision:
    """Make `out` of the folder `data` and new `logs`, without `users` (pseudonyms) and old days."""
    source = PreparedData(data)
    settings = recorded_settings(source, with_recogniser=bool(logs))
    entries: dict[str, Any] = {}
    with publish(out, "data", entries) as folder:
        work = folder / "work"
        work.mkdir(mode=0o700)
        material = gather(source, settings, logs, work / "new", progress)
        removal = Removal(users, None if keep_days is None else _start(material.rows, keep_days))
        places = find_places(material.rows, material.rejected, material.files, removal)
        _write_part(material.rows, removal, places, work / "journal", settings)
        gone = write_list(material.rejected, places, folder / REJECTED, settings.read.excerpts)
        removed_users = _users_with_rows(material, users)
        tables, split = _make_tables(folder, settings, progress)
        titles = source.titles()
        write_titles(folder, titles)
        (folder / OWNERS).replace(folder / REJECTED_OWNERS)

        # What the manifest says of the whole log, as `prepare` would.
        left = {reason: count - gone.get(reason, 0) for reason, count in material.reasons.items()}
        reasons = sorted(left.items(), key=lambda item: (-item[1], item[0]))
        rejected, read = sum(left.values()), material.rows_read - len(places.removed)
        entries["counts"] = {
            "rows_read": read,
            "rows_accepted": read - rejected,
            "rows_rejected": rejected,
            "rejected": {reason: count for reason, count in reasons if count},
            **tables["counts"],
            "titles": len(titles),
        }
        entries["settings"] = {
            **source.artifact.entry("settings"),
            "split_at": [time.isoformat() for time in split.cuts],
            **{name: getattr(settings, name) for name in _PREPARING_LATER},
        }
        entries["spelling"] = tables["spelling"]
        files = places.remaining_files()
        entries["logs"] = [asdict(file) for file in files]
        # Files of which no row is left are named by their hashes: they are not new, and what was
        # forgotten must not come back with them.
        hashes = {file.sha256 for file in material.files if file.sha256}
        removed = sorted(hashes - {file.sha256 for file in files})
        revision: dict[str, Any] = {"date": f"{datetime.now(UTC):%Y-%m-%d}"}
        if users:
            revision["forgotten_users"] = len(removed_users)
        else:
            revision["added_files"] = len(logs)
        if keep_days is not None:
            revision["keep_days"] = keep_days
        if removed:
            revision["removed_files"] = removed
        entries["revisions"] = [*source.artifact.manifest.get("revisions", ()), revision]
        shutil.rmtree(work)
        source.artifact.check_current()
    return Revision(
        len(places.removed),
        material.rows_added,
        len(removed_users),
        count_unattributed(material.rejected),
        entries["counts"],
        entries["revisions"],
        tuple(sorted(users - removed_users)),
    )


def _start(rows: pl.LazyFrame, days: int) -> datetime:
    """The midnight (UTC) at which the last `days` days of the rows begin."""
    last = rows.select(pl.col("time").max()).collect(engine="streaming").item()
    midnight = datetime.combine(last, time.min)
    return midnight - timedelta(days=min(days - 1, (midnight - datetime(1900, 1, 1)).days))


def _write_part(
    rows: pl.LazyFrame, removal: Removal, places: Places, folder: Path, settings: PrepareSettings
) -> None:
    folder.mkdir()
    kept = rows.filter(~removal.is_removed()).with_columns(
        pl.col("place").map_batches(places.moved, return_dtype=pl.Int64)
    )
    joined = isinstance(format_named(settings.read.format), JoinedFormat)
    row = pl.int_range(1, pl.len() + 1, dtype=pl.Int64) if joined else pl.col("place")
    file = folder / "part-00000.parquet"
    kept.with_columns(row=row).sink_parquet(file, compression="uncompressed", statistics=False)
    if not pl.scan_parquet(file, glob=False).select(pl.len()).collect().item():
        raise LogError("no row would be left")


def _users_with_rows(material: Material, users: frozenset[str]) -> frozenset[str]:
    """Which of these users have rows, accepted or rejected."""
    if not users:
        return frozenset()
    named = pl.col("user").is_in(sorted(users))
    accepted = material.rows.filter(named).select("user").unique().collect(engine="streaming")
    rejected = material.rejected.filter(named)["user"]
    return frozenset({*accepted["user"], *rejected})


def _make_tables(
    folder: Path, settings: PrepareSettings, progress: Progress
) -> tuple[dict[str, Any], SplitRule]:
    rows = folder / "work" / "journal"
    engine = open_engine(settings.engine, folder / "work", settings.spark_master)
    try:
        split = split_rule(engine.scan(rows), settings)
        kept = partial(read_journal, engine, rows, split.held_out(), folder / ROWS)
        tables = write_tables(engine, folder, settings, split, kept, progress)
    finally:
        engine.close()
    progress("publishing", 0)
    return tables, split


def forget(
    data: Path,
    users: Collection[str],
    out: Path | None = None,
    *,
    as_pseudonyms: bool = False,
    progress: Progress = lambda stage, share: None,
) -> Revision:
    """Remove users, named as in the log, from a data folder, or write `out` without them.

    With `as_pseudonyms` they are named as in the folder's own tables. Who has no rows there is
    named in `users_not_found`, and does not keep the others from being removed.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> user = next(data.sessions("background")).user
    >>> forget(Path("data"), [user], as_pseudonyms=True).users_removed
    1
    """
    named = {user for user in users if user}
    if not named:
        raise InputError("`user`: nobody is named")
    if as_pseudonyms and not all(user.isdigit() for user in named):
        raise InputError("`user`: a pseudonym is a number, as in the tables of the data folder")
    names = {user if as_pseudonyms else str(pseudonym(user)): user for user in sorted(named)}
    revision = _revise(data, out or data, (), frozenset(names), None, progress)
    missing = tuple(sorted(names[user] for user in revision.users_not_found))
    return replace(revision, users_not_found=missing)


_MOST_DAYS = 100_000


def update(
    data: Path,
    logs: Sequence[str | Path],
    out: Path | None = None,
    *,
    keep_days: int | None = None,
    new_only: bool = False,
    progress: Progress = lambda stage, share: None,
) -> Revision:
    """Add the rows of new logs to a data folder, or write `out` with them.

    With `keep_days` the rows of older days go, those of the last day in the log included in the
    number; days are those of UTC. With `new_only` files whose content the folder has already are
    left out, whatever their names, so that a job which is run again adds nothing twice.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> added = update(Path("data"), [LOG], Path("twice")).rows_added
    >>> added == data.artifact.entry("counts")["rows_read"]
    True
    """
    if keep_days is not None and not 1 <= keep_days <= _MOST_DAYS:
        raise InputError(f"`keep_days`: must be 1 or more, and at most {_MOST_DAYS:,}")
    if not logs and keep_days is None:
        raise InputError("nothing to do: give logs to add, or `keep_days`")
    if new_only:
        logs = _not_added_yet(data, logs)
        if not logs and keep_days is None and out is None:
            manifest = PreparedData(data).artifact.manifest
            return Revision(0, 0, 0, 0, manifest["counts"], manifest.get("revisions", ()))
    return _revise(data, out or data, logs, frozenset(), keep_days, progress)


def _not_added_yet(data: Path, logs: Sequence[str | Path]) -> list[str | Path]:
    """The logs whose content the folder does not have.

    Addresses, and files that the folder has without a hash, are compared by name.
    """
    manifest = PreparedData(data).artifact.manifest
    files_read = [FileRows(**file) for file in manifest.get("logs", ())]
    unhashed = {file.file for file in files_read if not file.sha256}
    sizes = {file.size for file in files_read if file.rows > 1}  # not those of a header alone
    hashes = {file.sha256 for file in files_read if file.sha256}
    for revision in manifest.get("revisions", ()):
        hashes.update(revision.get("removed_files", ()))
    new: list[str | Path] = [log for log in logs if "://" in str(log) and str(log) not in unhashed]
    for file in find_files([Path(log) for log in logs if "://" not in str(log)]):
        content = hash_content(file, sizes)
        if content.sha256 in hashes or printable(file) in unhashed:
            continue
        if hashes.intersection(content.beginnings.values()):
            raise InputError(
                f"{printable(file)}: has grown since it was added, and its first rows would count "
                "twice; add files that are complete, or prepare the whole log again"
            )
        if any(PurePath(name).name == printable(Path(file.name)) for name in unhashed):
            raise InputError(
                f"{printable(file)}: cannot be distinguished from a file of this name that the "
                "folder has without a hash of its content (it was prepared by an earlier "
                "nextquery, or the file changed meanwhile); prepare the log "
                "again, or leave `new_only` out"
            )
        hashes.add(content.sha256)
        new.append(file)
    return new

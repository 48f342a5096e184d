"""Reading a prepared data folder, and recording which state a model was made from."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, TypeVar

import polars as pl

from nextquery.artifacts import Artifact, open_artifact
from nextquery.errors import ArtifactError
from nextquery.records import Session

T = TypeVar("T")
_TRIES = 20
"""How often a folder is opened that is replaced while it is read."""
SPLITS = ("background", "training", "validation", "test")
UNSEEN_USERS = "unseen_users"
SINGLE_SEARCHES = "single_searches"
"""The folder of sessions of one query; folders of earlier versions do not have it."""
TITLES = "titles.txt"
"""One normalised title per line."""
_ROWS_AT_A_TIME = 50_000
_SESSION = ("session", "position", "user", "query")
_TEXTS = {"user", "query", "word", "first", "second", "anchor", "next", "url"}
_COLUMNS = {
    "queries": ("query", "count", "users"),
    "words": ("word", "count", "users"),
    "word_pairs": ("first", "second", "users"),
    "followers": ("anchor", "next", "count"),
    "clicks": ("query", "url", "count"),
}
_IN_SESSIONS = ("session_count", "session_users")
_TEXT_OF_TABLE = {"queries": "query", "words": "word"}
_JOURNAL = {"journal/rows.parquet": ("place", "user"), "journal/rejected.parquet": ("place",)}


class PreparedData:
    """A prepared data folder, opened for reading.

    >>> import nextquery
    >>> made = nextquery.prepare(LOG, "data", spelling=False)
    >>> data = PreparedData(Path("data"))
    >>> data.min_users, data.words()[:3]
    (3, ['soup', 'paris', 'ford'])
    >>> all(len(session.queries) > 1 for session in data.sessions("test"))
    True
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._within_sessions = False
        for remaining in reversed(range(_TRIES)):
            self.artifact: Artifact = open_artifact(path, "data")
            self._folder = self.artifact.folder.lasting_path()
            try:
                self.artifact.check_once("tables", self._check_tables)
                return
            except ArtifactError:
                if self.artifact.folder.is_current() or not remaining:
                    raise

    def within_sessions(self) -> Self:
        """The same folder with counts of sessions of two or more queries only, as in the paper.

        >>> import nextquery
        >>> data = nextquery.prepare(LOG, "data", spelling=False)
        >>> every, inside = (each.counts("queries").collect() for each in
        ...                  (data, data.within_sessions()))
        >>> every["count"].sum() > inside["count"].sum()
        True
        """
        view = copy(self)
        view._within_sessions = True
        return view

    @property
    def counts_single_searches(self) -> bool:
        """Whether the counts include sessions of one query."""
        return not self._within_sessions and bool(self.artifact.files(SINGLE_SEARCHES))

    @property
    def min_users(self) -> int:
        """K of the k-user rule the folder was prepared with."""
        return int(self.artifact.entry("settings")["min_users"])

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that exist, in the order of time, held-out users last."""
        session_counts = self.artifact.entry("counts")["sessions"]
        return tuple(name for name in (*SPLITS, UNSEEN_USERS) if name in session_counts)

    def session_files(self, split: str) -> list[Path]:
        """The Parquet parts of a split, in order."""
        names = self.artifact.files(f"sessions/{split}")
        if not names:
            raise ArtifactError(f"{self.path}: has no split {split!r} (it has {self.splits})")
        return [self._folder / name for name in names]

    def session_folder(self, split: str) -> Path:
        """The folder of a split, for an engine that reads whole folders."""
        self.session_files(split)
        return self._own_folder(f"sessions/{split}")

    def _own_folder(self, name: str) -> Path:
        """A folder in which every file is listed in the manifest."""
        folder = self._folder / name
        listed = {self._folder / file for file in self.artifact.files(name)}
        foreign = sorted(set(folder.iterdir()) - listed)
        if foreign:
            raise ArtifactError(f"{self.path}: {name}/{foreign[0].name} is not its own")
        return folder

    def session_rows(self, split: str) -> pl.LazyFrame:
        """The rows of a split, sorted by session and position."""
        return pl.scan_parquet(self.session_files(split))

    def search_rows(self, split: str) -> pl.LazyFrame:
        """The rows of all searches of a split: those of its sessions, then single searches."""
        files = self.session_files(split)
        if self.counts_single_searches:
            files += [
                self._folder / name for name in self.artifact.files(f"{SINGLE_SEARCHES}/{split}")
            ]
        return pl.scan_parquet(files)

    def search_folders(self, split: str) -> list[Path]:
        """The folders with all searches of a split, for an engine that reads whole folders."""
        folders = [self.session_folder(split)]
        if self.counts_single_searches:
            folders.append(self._own_folder(f"{SINGLE_SEARCHES}/{split}"))
        return folders

    def sessions(self, split: str) -> Iterator[Session]:
        """The sessions of a split in order, read some rows at a time."""
        for session, rows in groupby(self._rows(split), key=itemgetter(0)):
            _, users, queries = zip(*rows, strict=True)
            yield Session(session, users[0], queries)

    def _rows(self, split: str) -> Iterator[tuple[int, str, str]]:
        rows = self.session_rows(split).select("session", "user", "query")
        for batch in rows.collect_batches(chunk_size=_ROWS_AT_A_TIME, engine="streaming"):
            yield from batch.iter_rows()

    def counts(self, name: str) -> pl.LazyFrame:
        """A count table: queries, words, word_pairs, followers or clicks, highest count first.

        `count` and `users` are of all searches; see `within_sessions`.
        """
        table = pl.scan_parquet(self.file(f"counts/{name}.parquet"))
        if not self._within_sessions or not self.artifact.files(SINGLE_SEARCHES):
            return table
        if name in _TEXT_OF_TABLE:
            text = _TEXT_OF_TABLE[name]
            counts = table.select(text, count="session_count", users="session_users")
            enough_users = counts.filter(pl.col("users") >= self.min_users)
            return enough_users.sort(["count", text], descending=[True, False])
        queries = self.counts("queries").select("query")
        if name == "clicks":
            return table.join(queries, on="query", how="semi", maintain_order="left")
        if name == "followers":
            for side in ("anchor", "next"):
                renamed = queries.rename({"query": side})
                table = table.join(renamed, on=side, how="semi", maintain_order="left")
        return table

    def words(self) -> list[str]:
        """The vocabulary's words, most frequent first."""
        return self.file("vocabulary.txt").read_text(encoding="utf-8").splitlines()

    def titles(self) -> list[str]:
        """Titles of what the site has, normalised; none unless `prepare` got some."""
        if TITLES not in self.artifact.manifest["files"]:
            return []
        return self.file(TITLES).read_text(encoding="utf-8").splitlines()

    def file(self, name: str) -> Path:
        """Where to read a file that the manifest names."""
        self.artifact.file(name)
        return self._folder / name

    def _check_tables(self) -> None:
        """Refuse tables without the columns that are read, and settings that are none."""
        try:
            usable = self.min_users >= 1 and len(self.splits) >= 0
        except (KeyError, TypeError, ValueError):
            usable = False
        if not usable:
            raise ArtifactError("its manifest has no usable settings and counts")
        for name in self.artifact.manifest["files"]:
            if name.endswith(".parquet"):
                table = name.split("/")[-1].removesuffix(".parquet")
                columns = _COLUMNS.get(table, _SESSION) if name not in _JOURNAL else _JOURNAL[name]
                if table in _TEXT_OF_TABLE and self.counts_single_searches:
                    columns += _IN_SESSIONS
                _check_table(self.file(name), name, columns)


def read_data(path: Path, read: Callable[[PreparedData], T]) -> T:
    """What `read` makes of the data folder at `path`; read again where it is replaced meanwhile.

    For jobs of seconds. A longer one calls `artifact.check_current()` after its last reading.
    """
    for _ in range(_TRIES):
        data = PreparedData(path)
        try:
            result = read(data)
        except Exception:
            if data.artifact.folder.is_current():
                raise
            continue
        if data.artifact.folder.is_current():
            return result
    raise ArtifactError(f"{path}: replaced again and again while it was read; try again later")


def _check_table(file: Path, name: str, columns: Sequence[str]) -> None:
    """Every value can be read, and each column that is used has texts or numbers in every row."""
    try:
        rows = pl.scan_parquet(file)
        schema = rows.collect_schema()
        missing = [column for column in columns if column not in schema]
        if missing:
            raise ArtifactError(f"{name} has no column {missing[0]!r}")
        years = [pl.col(c).dt.year() for c, kind in schema.items() if isinstance(kind, pl.Datetime)]
        facts = rows.select(
            pl.all().hash().sum(),
            pl.all().null_count().name.suffix(" nulls"),
            *(year.min().name.suffix(" first") for year in years),
            *(year.max().name.suffix(" last") for year in years),
        )
        nulls = facts.collect(engine="streaming").row(0, named=True)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ArtifactError(f"{name} cannot be read as Parquet ({reason})") from None
    for column in columns:
        fits = schema[column] == pl.String if column in _TEXTS else schema[column].is_integer()
        if not fits or nulls[f"{column} nulls"]:
            kind = "texts" if column in _TEXTS else "integers"
            raise ArtifactError(f"{name}: column {column!r} must have {kind} without nulls")
    for fact, year in nulls.items():
        if fact.endswith((" first", " last")) and year is not None and not 1000 < year < 9000:
            raise ArtifactError(f"{name} has a time of the year {year}")


def data_entry(data: PreparedData) -> dict[str, Any]:
    """What a model's manifest says of its data: the folder's fingerprint and who was forgotten."""
    manifest = data.artifact.manifest
    files = json.dumps(manifest["files"], sort_keys=True)
    last = data.session_rows("background").select(pl.col("time").max()).collect().item()
    return {
        "folder": hashlib.sha256(files.encode()).hexdigest()[:16],
        "forgotten": _forgotten(manifest),
        "until": None if last is None else last.isoformat(),
    }


def continued_entry(data: PreparedData, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a model that continues an earlier one, which had users forgotten since.

    `earlier` is the earlier model's manifest. Those users' removal is approximate.
    """
    entry = data_entry(data)
    before = earlier.get("data", {})
    exact = len(before.get("forgotten", ())) - int(before.get("approximately", 0))
    return {**entry, "approximately": len(entry["forgotten"]) - exact}


def forgotten_since(model: Mapping[str, Any], data: PreparedData) -> int | None:
    """How many users a data folder has forgotten since a model was made of it.

    `model` is the model's manifest. None where that does not say what it was made from.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> forgotten_since({"data": data_entry(data)}, data)
    0
    """
    if "data" not in model:
        return None
    forgotten_then = len(model["data"]["forgotten"])
    return sum(int(note["users"]) for note in _forgotten(data.artifact.manifest)[forgotten_then:])


def approximately_forgotten(entry: Mapping[str, Any]) -> int:
    """Of how many users a model includes the removal only approximately.

    `entry` is what its manifest says of its data: it continues a model that had them.

    >>> notes = [{"date": "2026-11-16", "users": 2}, {"date": "2026-11-17", "users": 3}]
    >>> approximately_forgotten({"forgotten": notes, "approximately": 1})
    3
    """
    late = int(entry.get("approximately", 0))
    return sum(int(note["users"]) for note in entry["forgotten"][-late:]) if late else 0


def describe_forgotten(entry: Mapping[str, Any]) -> str:
    """A sentence for a model card.

    >>> describe_forgotten({"forgotten": [{"date": "2026-11-16", "users": 2}]})
    'Before this model was made, users were removed from its data on request: 2 on 2026-11-16.'
    >>> describe_forgotten({"forgotten": []})
    'Nobody had been removed from its data on request when this model was made.'
    """
    notes = entry["forgotten"]
    if not notes:
        return "Nobody had been removed from its data on request when this model was made."
    listed = ", ".join(f"{note['users']:,} on {note['date']}" for note in notes)
    sentence = f"Before this model was made, users were removed from its data on request: {listed}."
    users = approximately_forgotten(entry)
    if not users:
        return sentence
    return (
        f"{sentence} The last {users:,} of them were known to the model that this one continued: "
        "their removal is approximate."
    )


def _forgotten(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"date": note["date"], "users": note["forgotten_users"]}
        for note in manifest.get("revisions", ())
        if note.get("forgotten_users")
    ]

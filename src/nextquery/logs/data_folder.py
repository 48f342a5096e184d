"""Reading a prepared data folder, whose layout docs/data.md explains.

    DATA/manifest.json            counts, settings, versions, SHA-256 of every file
    DATA/vocabulary.txt           the known words, most frequent first, one per line
    DATA/sessions/<split>/part-*.parquet
                                  one row per query, sorted by (session, position):
                                  session int64, position int32, user string, time timestamp[us],
                                  query string, clicks int32
    DATA/counts/queries.parquet   query, count, users            (background, at least K users)
    DATA/counts/words.parquet     word, count, users             (background, at least K users)
    DATA/counts/word_pairs.parquet  first, second, count, users  (adjacent words, background, all)
    DATA/counts/followers.parquet anchor, next, count, users     (consecutive queries, both known)
    DATA/counts/clicks.parquet    query, url, count, users       (background, query known)
    DATA/journal/rows.parquet     the accepted rows after cleaning (see `stages/journal.py`)
    DATA/journal/rejected.parquet whose the rejected rows were
    DATA/rejected.ndjson.gz       every row not taken: file, line, reason

All counts are over the background sessions of two or more queries, except `clicks`, which also
counts sessions of one query. K is `min_users`. `session` is the row number of the session's
first query in the log, `user` a pseudonym. Count tables are sorted by count, highest first,
then by text.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import polars as pl

from nextquery.artifacts import Artifact, open_artifact
from nextquery.errors import ArtifactError
from nextquery.records import Session

SPLITS = ("background", "training", "validation", "test")
UNSEEN_USERS = "unseen_users"
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
        self.artifact: Artifact = open_artifact(path, "data")
        self.path = path
        self._place = self.artifact.folder.lasting_path()
        self.artifact.check_once("tables", self._check_tables)

    @property
    def min_users(self) -> int:
        """K of the k-user rule the folder was prepared with."""
        return int(self.artifact.entry("settings")["min_users"])

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that exist, in the order of time, held-out users last."""
        present = self.artifact.entry("counts")["sessions"]
        return tuple(name for name in (*SPLITS, UNSEEN_USERS) if name in present)

    def session_files(self, split: str) -> list[Path]:
        """The Parquet parts of a split, in order."""
        names = self.artifact.files(f"sessions/{split}")
        if not names:
            raise ArtifactError(f"{self.path}: has no split {split!r} (it has {self.splits})")
        return [self._place / name for name in names]

    def session_folder(self, split: str) -> Path:
        """The folder of a split, for an engine that reads whatever lies there."""
        files = self.session_files(split)
        folder = self._place / "sessions" / split
        foreign = sorted(set(folder.iterdir()) - set(files))
        if foreign:
            raise ArtifactError(f"{self.path}: sessions/{split}/{foreign[0].name} is not its own")
        return folder

    def session_rows(self, split: str) -> pl.LazyFrame:
        """The rows of a split, sorted by session and position."""
        return pl.scan_parquet(self.session_files(split))

    def sessions(self, split: str) -> Iterator[Session]:
        """The sessions of a split in order, read some rows at a time."""
        for session, rows in groupby(self._rows(split), key=itemgetter(0)):
            _, users, queries = zip(*rows, strict=True)
            yield Session(session, users[0], queries)

    def _rows(self, split: str) -> Iterator[tuple[int, str, str]]:
        import pyarrow.parquet as pq  # takes a while, and making a folder needs no reader

        columns = ["session", "user", "query"]
        for file in self.session_files(split):
            with pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches(_ROWS_AT_A_TIME, columns=columns):
                    yield from zip(*(column.to_pylist() for column in batch), strict=True)

    def counts(self, name: str) -> pl.LazyFrame:
        """A count table: queries, words, word_pairs, followers or clicks."""
        return pl.scan_parquet(self.file(f"counts/{name}.parquet"))

    def words(self) -> list[str]:
        """The vocabulary's words, most frequent first."""
        return self.file("vocabulary.txt").read_text(encoding="utf-8").splitlines()

    def file(self, name: str) -> Path:
        """Where to read a file that the manifest names."""
        self.artifact.file(name)
        return self._place / name

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
                _check_table(self.file(name), name, columns)


def _check_table(file: Path, name: str, columns: Sequence[str]) -> None:
    """Every value can be read, and each column that is used has texts or numbers in every row."""
    try:
        rows = pl.scan_parquet(file)
        found = rows.collect_schema()
        missing = [column for column in columns if column not in found]
        if missing:
            raise ArtifactError(f"{name} has no column {missing[0]!r}")
        every = pl.all()
        years = [pl.col(c).dt.year() for c, kind in found.items() if isinstance(kind, pl.Datetime)]
        facts = rows.select(
            every.hash().sum(),
            every.null_count().name.suffix(" nulls"),
            *(year.min().name.suffix(" first") for year in years),
            *(year.max().name.suffix(" last") for year in years),
        )
        nulls = facts.collect(engine="streaming").row(0, named=True)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ArtifactError(f"{name} cannot be read as Parquet ({reason})") from None
    for column in columns:
        fits = found[column] == pl.String if column in _TEXTS else found[column].is_integer()
        if not fits or nulls[f"{column} nulls"]:
            raise ArtifactError(f"{name} has a column {column!r} that is not as it should be")
    for fact, year in nulls.items():
        if fact.endswith((" first", " last")) and year is not None and not 1000 < year < 9000:
            raise ArtifactError(f"{name} has a time of the year {year}")

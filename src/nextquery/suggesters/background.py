"""Counts of the background: queries and words, weighted by age, with a prior; what follows what.

Also how count models store arrays, tries and follower tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import cached_property
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import marisa_trie
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import (
    check_length,
    check_offsets,
    check_positive,
    check_range,
    load_array,
    load_trie,
    require,
)
from nextquery.config import Section
from nextquery.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from nextquery.logs.data_folder import PreparedData
    from nextquery.logs.engines.base import Frame


RecordT = TypeVar("RecordT")


def save_array(folder: Path, name: str, values: NDArray[Any]) -> None:
    """Write `values` as `name` in the folder."""
    np.save(folder / name, values, allow_pickle=False)


def save_record(folder: Path, name: str, record: Any) -> None:
    """Write every field of a dataclass of arrays as `name_FIELD.npy`."""
    for field in fields(record):
        save_array(folder, f"{name}_{field.name}.npy", getattr(record, field.name))


def load_record(artifact: Artifact, name: str, kind: type[RecordT]) -> RecordT:
    """The dataclass of arrays that `save_record` wrote."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(*(load_array(artifact, f"{name}_{field}.npy") for field in names))


def save_trie(folder: Path, name: str, trie: Any) -> None:
    """Write a trie as `name` in the folder."""
    (folder / name).write_bytes(trie.tobytes())


@dataclass(frozen=True)
class Followers:
    """Row `r` is `offsets[r]:offsets[r + 1]` of the other three arrays."""

    offsets: NDArray[np.int64]
    next: NDArray[np.int32]
    """The followers of each row, ascending."""
    counts: NDArray[Any]
    """Whole numbers, or, where old observations weigh less, fractions."""
    best: NDArray[np.int32]
    """The positions within the row, most frequent follower first."""
    totals: NDArray[Any]
    """The sum of the counts of each row."""

    @classmethod
    def from_counts(
        cls,
        rows: NDArray[Any],
        following: NDArray[Any],
        counts: NDArray[Any],
        size: int,
        rank: NDArray[Any],
    ) -> Self:
        """Sort triples of row, follower and count into a table of `size` rows.

        `rank[follower]` breaks ties between equal counts, lowest first.
        """
        by_follower = np.lexsort((following, rows))
        rows, following, counts = rows[by_follower], following[by_follower], counts[by_follower]
        offsets = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=size), out=offsets[1:])
        is_integer = counts.dtype.kind in "iu"
        typed_counts = counts.astype(np.int64 if is_integer else np.float64)
        by_count = np.lexsort((rank[following], -typed_counts, rows))
        best = by_count - offsets[rows]
        totals = np.bincount(rows, typed_counts, size).astype(typed_counts.dtype)
        return cls(
            offsets,
            following.astype(np.int32),
            typed_counts.astype(np.int32) if is_integer else typed_counts,
            best.astype(np.int32),
            totals,
        )

    def __len__(self) -> int:
        return len(self.totals)

    def total(self, row: int) -> float:
        """How often anything followed."""
        return float(self.totals[row])

    def size(self, row: int) -> int:
        """How many different followers a row has."""
        return int(self.offsets[row + 1] - self.offsets[row])

    def most_frequent(self, row: int, limit: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """The `limit` most frequent followers of a row and their counts."""
        start = self.offsets[row]
        indices = start + self.best[start : start + min(self.size(row), limit)]
        return self.next[indices], self.counts[indices]

    def count(self, row: int, following: NDArray[Any]) -> NDArray[Any]:
        """How often each of `following` followed."""
        start, stop = self.offsets[row], self.offsets[row + 1]
        followers = self.next[start:stop]
        # Of the same type, or NumPy converts the whole row first.
        following = following.astype(np.int32)
        indices = np.searchsorted(followers, following)
        counts = np.zeros(len(following), self.totals.dtype)
        inside = indices < len(followers)
        matching = np.flatnonzero(inside)[followers[indices[inside]] == following[inside]]
        counts[matching] = self.counts[start + indices[matching]]
        return counts

    def save(self, folder: Path) -> None:
        """Write the arrays into a model folder."""
        save_record(folder, "followers", self)

    @classmethod
    def load(cls, artifact: Artifact) -> Self:
        """Map what `save` wrote."""
        return load_record(artifact, "followers", cls)

    def check(self, rows: int, symbols: int) -> None:
        """Refuse arrays that are not those of `rows` rows over `symbols` followers."""
        length = len(self.next)
        check_offsets("followers_offsets", self.offsets, rows, length)
        for name, values in (("counts", self.counts), ("best", self.best)):
            check_length(f"followers_{name}", values, length)
        check_length("followers_totals", self.totals, rows)
        check_range("followers_next", self.next, symbols)
        check_positive("followers_counts", self.counts)
        sizes = np.diff(self.offsets)
        check_range("followers_best", self.best, int(sizes.max(initial=0)))
        require(bool((self.best < np.repeat(sizes, sizes)).all()), "followers_best leaves its row")
        of_rows = np.repeat(np.arange(rows), sizes)
        ascending = (np.diff(self.next.astype(np.int64)) > 0) | (np.diff(of_rows) > 0)
        require(bool(ascending.all()), "followers_next is out of order")
        sums = np.bincount(of_rows, self.counts, rows)
        fits = len(sums) == len(self.totals) and np.allclose(sums, self.totals, 1e-9, 0)
        require(bool(fits), "followers_totals are not the sums of the rows")


class AgingSettings(Section):
    """How the age of an observation counts, in days before the last day of the background; and use.

    >>> AgingSettings().ages, AgingSettings(window_days=30).ages
    (False, True)
    """

    half_life_days: float | None = Field(default=None, gt=0)
    """Days after which an occurrence counts half; none: all count the same."""
    window_days: int | None = Field(default=None, ge=1)
    """The last days of the background that count at all; none: every day."""
    useful_weight: float = Field(default=1.0, ge=1.0, le=1000.0)
    """How often a query counts that is always useful: clicked, and no other query within a minute.
    One that is useful half of the time counts for half of the difference."""

    @property
    def ages(self) -> bool:
        """Whether the age of an observation matters."""
        return self.half_life_days is not None or self.window_days is not None


@dataclass(frozen=True)
class Known:
    """The known queries at the end of a context, newest first."""

    queries: tuple[int, ...]
    shortened_to: str | None = None
    """What is left of the last query, if it was never seen."""


@dataclass(frozen=True)
class Background:
    """The known queries and words with their counts; `counts[id]` belongs to query `id`.

    The prior of a known query is `count / (total + 1)`. The one imaginary observation is left to
    all other texts and spread by spelling them out word by word, see `log_prior`.
    """

    queries: Any
    counts: NDArray[Any]
    words: Any
    word_counts: NDArray[np.int64]

    def save(self, folder: Path) -> None:
        """Write the four files into a model folder."""
        save_trie(folder, "queries.trie", self.queries)
        save_trie(folder, "words.trie", self.words)
        save_array(folder, "query_counts.npy", self.counts)
        save_array(folder, "word_counts.npy", self.word_counts)

    @classmethod
    def load(cls, artifact: Artifact) -> Self:
        """Map what `save` wrote."""
        return cls(
            load_trie(artifact, "queries.trie"),
            load_array(artifact, "query_counts.npy"),
            load_trie(artifact, "words.trie"),
            load_array(artifact, "word_counts.npy"),
        )

    def check(self, *, may_be_empty: bool = False) -> None:
        """Refuse tries and counts that do not belong together."""
        require(may_be_empty or len(self.queries) > 0, "queries.trie is empty")
        for name, trie, counts in (
            ("query_counts", self.queries, self.counts),
            ("word_counts", self.words, self.word_counts),
        ):
            check_length(name, counts, len(trie))
            check_positive(name, counts)

    @cached_property
    def total(self) -> float:
        """How many queries were counted."""
        return float(self.counts.sum()) or 1.0

    @cached_property
    def symbols(self) -> float:
        """How many words and query ends were counted, and one for the unknown word."""
        return float(self.word_counts.sum()) + self.total + 1

    def id(self, query: str) -> int | None:
        """The number of a known query."""
        query_id: int | None = self.queries.get(query)
        return query_id

    def text(self, query: int) -> str:
        """The query with this number."""
        restored: str = self.queries.restore_key(query)
        return restored

    def ids(self, queries: Sequence[str]) -> NDArray[np.int32]:
        """The numbers of many known queries."""
        return np.fromiter((self.queries[query] for query in queries), np.int32, len(queries))

    def by_number(self, queries: Sequence[str], values: NDArray[Any]) -> NDArray[np.float64]:
        """The values of known queries in the order of their numbers, 0 for all others."""
        ids = np.array([self.queries.get(query, -1) for query in queries], np.int64)
        ordered = np.zeros(len(self.counts))
        ordered[ids[ids >= 0]] = values[ids >= 0]
        return ordered

    def log_after(self, query: int, count: float, total: float) -> float:
        """The natural log-probability of a known query that came `count` of `total` times.

        The prior is one more, imaginary observation.
        """
        return log((count + self.prior(query)) / (total + 1))

    def newest_known(self, context: Sequence[str], *, shorten: bool) -> Known:
        """The last queries of a context up to the first that is not known, newest first.

        With `shorten`, an unknown last query loses words from its end until a known one is left.
        """
        queries: list[int] = []
        shortened_to = None
        for text in reversed(context):
            query = self.id(text)
            if query is None and not queries and shorten:
                shortened_to = known_beginning(text, self.queries.__contains__) or None
                query = None if shortened_to is None else self.id(shortened_to)
            if query is None:
                break
            queries.append(query)
        return Known(tuple(queries), shortened_to)

    def prior(self, query: int) -> float:
        """The probability of a known query when nothing is known of its context."""
        return float(self.counts[query]) / (self.total + 1)

    def log_prior(self, query: str) -> float:
        """The natural log-probability of any text when nothing is known of its context.

        An unknown query is spelt out: `log(1 / (total + 1))`, then `log(count(word) / symbols)` a
        word, an unknown word counted as one, and `log(total / symbols)` for the end.
        """
        query_id = self.id(query)
        if query_id is not None:
            return log(self.prior(query_id))
        words = [self.words.get(word) for word in query.split()]
        counts = (1 if word is None else int(self.word_counts[word]) for word in words)
        spelt = sum(log(count / self.symbols) for count in counts)
        return spelt + log(self.total / self.symbols) - log(self.total + 1)

    def unknown_words(self, query: str) -> tuple[str, ...]:
        """The words that the background does not know, in their order."""
        return tuple(word for word in query.split() if self.words.get(word) is None)


def known_beginning(query: str, known: Callable[[str], bool]) -> str:
    """The paper's long-tail rule: drop words from the end until a known query remains.

    >>> known_beginning("red cars for sale", {"red cars", "cars"}.__contains__)
    'red cars'
    >>> known_beginning("boats", {"red cars", "cars"}.__contains__)
    ''
    """
    words = query.split()
    while words and not known(" ".join(words)):
        words.pop()
    return " ".join(words)


DAY = "day"


@dataclass(frozen=True)
class Ages:
    """What the observations of a day weigh."""

    settings: AgingSettings
    last: date

    def within(self) -> pl.Expr:
        """Whether a day is in the window."""
        import polars as pl

        if self.settings.window_days is None:
            return pl.lit(True)
        return self._age() < self.settings.window_days

    def weigh(self, daily: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """The counts (`keys`, day, count) of all days together, sorted by `keys`."""
        import polars as pl

        within_window = daily.filter(self.within()).sort(*keys, DAY)
        if self.settings.half_life_days is not None:
            weight = 0.5 ** (self._age() / self.settings.half_life_days)
            within_window = within_window.with_columns(count=pl.col("count") * weight)
        return within_window.group_by(keys, maintain_order=True).agg(pl.col("count").sum())

    def _age(self) -> pl.Expr:
        import polars as pl

        return (pl.lit(self.last) - pl.col(DAY)).dt.total_days()


def with_day(rows: Frame) -> Frame:
    """Rows with the day of their `time`."""
    import narwhals as nw

    return rows.with_columns(nw.col("time").dt.date().alias(DAY))


def count_background(data: PreparedData, *, may_be_empty: bool = False) -> Background:
    """Read the count tables of a prepared folder; without a known query it is refused."""
    queries, counts = _numbered(data, "queries", "query")
    words, word_counts = _numbered(data, "words", "word")
    if not len(queries) and not may_be_empty:
        raise InputError(
            f"{data.path}: no query was typed by {data.min_users} users; "
            "prepare it again with a lower `min_users`"
        )
    return Background(queries, counts, words, word_counts)


def heaviest_first(
    background: Background, weights: NDArray[Any], queries: Iterable[int] | None = None
) -> NDArray[np.int32]:
    """The indices of the weights of `queries` (all if None), highest first, ties by text."""
    import polars as pl

    numbers = range(len(weights)) if queries is None else queries
    texts = pl.Series("text", map(background.text, numbers), pl.String)
    frame = pl.DataFrame({"text": texts, "weight": weights}).with_row_index("id")
    ordered = frame.sort("weight", "text", descending=[True, False])
    return ordered["id"].cast(pl.Int32).to_numpy()


def frequency_ranks(background: Background) -> NDArray[np.int32]:
    """The rank of each query by count, ties by text, the most frequent having rank 0."""
    ranks = np.empty(len(background.counts), np.int32)
    ranks[heaviest_first(background, background.counts)] = np.arange(len(ranks), dtype=np.int32)
    return ranks


def _numbered(data: PreparedData, table: str, column: str) -> tuple[Any, NDArray[np.int64]]:
    """A trie over a count table's texts, and the counts in the order of its numbers."""
    import polars as pl

    rows = data.counts(table).select(column, pl.col("count").cast(pl.Int64)).collect()
    texts = rows[column].to_list()
    trie = marisa_trie.Trie(texts)  # its numbers depend on the set of texts alone
    counts = np.zeros(len(texts), np.int64)
    counts[np.fromiter((trie[text] for text in texts), np.int64, len(texts))] = rows["count"]
    return trie, counts

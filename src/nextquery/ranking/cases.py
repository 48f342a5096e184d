"""Ranking cases: a context, its candidates, and which one the user typed next."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.background import known_beginning


def user_fold(user: str, folds: int) -> int:
    """The fold of a user, from 0 to `folds` - 1.

    >>> [user_fold(f"user {number}", 4) for number in range(5)]
    [1, 2, 1, 1, 3]
    """
    return user_place(user, "fold") % folds


def user_place(user: str, purpose: str) -> int:
    """A number that orders users as if at random, in another order for each purpose."""
    return int.from_bytes(hashlib.md5(f"{purpose} {user}".encode()).digest()[:8], "big")


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankingCase:
    """One prediction to make.

    `candidates` are ordered by background frequency, then text: an order that does not depend on
    the context, so that breaking ties by position cannot give the answer away. `anchor` is the
    known query whose followers count (the last query, or in the long tail its known beginning).
    `length` counts the queries of the session, the target included and inserted noise not. `user`
    is whose session it is: a new visitor's own past does not count. `earlier` are queries that the
    user typed in sessions before this one, oldest first, where an experiment looks at them.
    """

    session: int
    context: tuple[str, ...]
    anchor: str
    candidates: tuple[str, ...]
    target: int
    length: int
    user: str = ""
    earlier: tuple[str, ...] = ()

    @property
    def next_query(self) -> str:
        """The query that the user typed next."""
        return self.candidates[self.target]


@dataclass(frozen=True, init=False)
class CaseSet:
    """Cases of one split, with the layout of their candidates in flat arrays."""

    cases: tuple[RankingCase, ...]

    def __init__(self, cases: Iterable[RankingCase]) -> None:
        object.__setattr__(self, "cases", tuple(cases))

    def __iter__(self) -> Iterator[RankingCase]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    @cached_property
    def sizes(self) -> Integers:
        """The number of candidates of each case."""
        return np.array([len(case.candidates) for case in self.cases], dtype=np.int64)

    @cached_property
    def starts(self) -> Integers:
        """Where each case's candidates begin in a flat array."""
        return np.concatenate([[0], np.cumsum(self.sizes)])[:-1].astype(np.int64)

    @cached_property
    def targets(self) -> Integers:
        """The index of each case's true next query in a flat array."""
        return self.starts + np.array([case.target for case in self.cases], dtype=np.int64)

    @cached_property
    def owners(self) -> Integers:
        """The number of the case that each flat candidate belongs to."""
        return np.repeat(np.arange(len(self.cases)), self.sizes)

    @cached_property
    def texts(self) -> list[str]:
        """All candidates, flat."""
        return [candidate for case in self.cases for candidate in case.candidates]

    @cached_property
    def users(self) -> list[str]:
        """The user of each case."""
        return [case.user for case in self.cases]

    def user_folds(self, folds: int) -> Integers:
        """The fold of each case's user."""
        return np.array([user_fold(user, folds) for user in self.users], dtype=np.int64)

    def split_by_fold(self, folds: int) -> Iterator[tuple[NDArray[np.bool_], "CaseSet"]]:
        """For each fold of users: which flat candidates belong to it, and its cases."""
        fold_of_case = self.user_folds(folds)
        for fold in range(folds):
            yield (fold_of_case == fold)[self.owners], self.select(fold_of_case == fold)

    @property
    def rows(self) -> int:
        """The number of candidates of all cases."""
        return int(self.sizes.sum())

    def ranks(self, scores: Floats) -> Integers:
        """The rank of each true next query, 1 the best; ties go to the earlier candidate."""
        if not self.cases:
            return np.zeros(0, dtype=np.int64)
        values = np.where(np.isnan(scores), -np.inf, scores)
        of_target = values[self.targets][self.owners]
        ahead = (values > of_target) | ((values == of_target) & self._before_targets)
        return 1 + np.add.reduceat(ahead, self.starts, dtype=np.int64)

    @cached_property
    def _before_targets(self) -> NDArray[np.bool_]:
        """Whether each flat candidate comes before its case's true next query."""
        return np.arange(self.rows) < self.targets[self.owners]

    def select(self, marks: Iterable[bool] | NDArray[np.bool_]) -> "CaseSet":
        """The marked cases."""
        return CaseSet(case for case, mark in zip(self.cases, marks, strict=True) if mark)


def reciprocal_ranks(cases: CaseSet, scores: Floats) -> Floats:
    """One over the rank of each case's true next query."""
    return 1.0 / cases.ranks(scores)


def canonical_order(candidates: Sequence[str], frequencies: Sequence[int]) -> tuple[str, ...]:
    """Candidates by frequency, highest first, then by text."""
    pairs = sorted(zip(candidates, frequencies, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return tuple(text for text, _ in pairs)


CANDIDATES = 20
"""The paper reranks the 20 queries with the highest ADJ score."""


class BackgroundCounts:
    """How often queries were typed, and followed one another, in the background."""

    def __init__(self, frequencies: dict[str, int], followers: dict[str, dict[str, int]]) -> None:
        self.frequencies = frequencies
        self._followers = followers
        self._candidates: dict[tuple[str, int], tuple[str, ...]] = {}

    @classmethod
    def read(cls, data: PreparedData, anchors: Iterable[str] | None = None) -> "BackgroundCounts":
        """Read the counts; with `anchors`, only the followers of their known beginnings."""
        queries = data.counts("queries").select("query", "count").collect()
        frequencies = dict(queries.iter_rows())
        followers = data.counts("followers").select("anchor", "next", "count")
        if anchors is not None:
            beginnings = {known_beginning(anchor, frequencies.__contains__) for anchor in anchors}
            known = sorted(beginnings - {""})
            keys = pl.LazyFrame({"anchor": known}, schema={"anchor": pl.String})
            followers = followers.join(keys, on="anchor", how="semi")
        table: dict[str, dict[str, int]] = {}
        for anchor, following, count in followers.collect().iter_rows():
            table.setdefault(anchor, {})[following] = count
        return cls(frequencies, table)

    def __contains__(self, query: str) -> bool:
        return query in self.frequencies

    def frequency(self, query: str) -> int:
        """How often the query was typed."""
        return self.frequencies.get(query, 0)

    def known_beginning(self, query: str) -> str:
        """The query without as many last words as make it known; empty if nothing is left."""
        return known_beginning(query, self.__contains__)

    def followers(self, anchor: str) -> Mapping[str, int]:
        """The queries that followed the anchor, with their counts."""
        return self._followers.get(anchor, {})

    def candidates(self, anchor: str, n: int = CANDIDATES) -> tuple[str, ...]:
        """The `n` most frequent followers; ties by frequency, then by text."""
        known = self._candidates.get((anchor, n))
        if known is None:
            counts = self.followers(anchor)
            order = nsmallest(n, counts, lambda text: (-counts[text], -self.frequency(text), text))
            known = self._candidates[anchor, n] = tuple(order)
        return known

    def most_frequent(self, n: int) -> list[tuple[str, int]]:
        """The `n` most frequent queries with their counts; ties by text."""
        order = sorted(self.frequencies.items(), key=lambda item: (-item[1], item[0]))
        return order[:n]


class Backgrounds:
    """The background as the cases of each user see it.

    Whole, or without the users of the own fold: everybody in a fold sees the same counts. Leaving
    out single users would tell a ranker who they are: where a count is lower than for all others,
    this user has typed the query.
    """

    def __init__(
        self, whole: BackgroundCounts, without_fold: Sequence[BackgroundCounts] = ()
    ) -> None:
        self.whole = whole
        self._without_fold = tuple(without_fold)

    def of(self, user: str) -> BackgroundCounts:
        """What counts for this user."""
        folds = len(self._without_fold)
        return self._without_fold[user_fold(user, folds)] if folds else self.whole

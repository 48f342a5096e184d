"""Candidates: the queries that most often follow the anchor in the background (ADJ).

Knows the count tables of a prepared data folder. Does not know sessions, scenarios or features. The
count models keep the same counts in compact arrays (`suggesters/background.py`); the long-tail rule
is the one function there, and a test holds both to the same order of followers.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest

import polars as pl

from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.user_folds import user_fold
from nextquery.suggesters.background import known_beginning

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
            found = {known_beginning(anchor, frequencies.__contains__) for anchor in anchors}
            known = sorted(found - {""})
            wanted = pl.LazyFrame({"anchor": known}, schema={"anchor": pl.String})
            followers = followers.join(wanted, on="anchor", how="semi")
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

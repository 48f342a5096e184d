"""Candidates: the queries that most often follow the anchor in the background (ADJ).

Knows the count tables of a prepared data folder, and how they look without one user. Does not know
scenarios or features. The count models keep the same counts in compact arrays
(`suggesters/background.py`); the long-tail rule is the one function there, and a test holds both to
the same order of followers.
"""

from collections.abc import Iterable, Mapping

import polars as pl

from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.user_history import RarestTexts, UserHistory
from nextquery.suggesters.background import known_beginning

CANDIDATES = 20
"""The paper reranks the 20 queries with the highest ADJ score."""


class BackgroundCounts:
    """How often queries were typed, and followed one another, in the background."""

    def __init__(self, frequencies: dict[str, int], followers: dict[str, dict[str, int]]) -> None:
        self.frequencies = frequencies
        self._followers = followers

    @classmethod
    def read(cls, data: PreparedData, anchors: Iterable[str] | None = None) -> "BackgroundCounts":
        """Read the counts; with `anchors`, only the followers of their known beginnings."""
        queries = data.counts("queries").select("query", "count").collect()
        frequencies = dict(queries.iter_rows())
        followers = data.counts("followers").select("anchor", "next", "count")
        if anchors is not None:
            # All beginnings: without a user the longest one may be known no more.
            found = {start for anchor in anchors for start in _beginnings(anchor)}
            known = sorted(found & frequencies.keys())
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
        counts = self.followers(anchor)
        order = sorted(counts, key=lambda text: (-counts[text], -self.frequency(text), text))
        return tuple(order[:n])

    def most_frequent(self, n: int) -> list[tuple[str, int]]:
        """The `n` most frequent queries with their counts; ties by text."""
        order = sorted(self.frequencies.items(), key=lambda item: (-item[1], item[0]))
        return order[:n]


class CountsWithoutUser(BackgroundCounts):
    """The background as if it had been prepared without one user's sessions.

    >>> whole = BackgroundCounts({"cars": 5, "red cars": 2}, {"cars": {"red cars": 2}})
    >>> history = UserHistory((("cars", "red cars"),))
    >>> without = CountsWithoutUser(whole, history, frozenset())
    >>> without.frequency("cars"), without.followers("cars")
    (4, {'red cars': 1})
    """

    def __init__(
        self, whole: BackgroundCounts, history: UserHistory, rarest: frozenset[str]
    ) -> None:
        super().__init__(whole.frequencies, {})
        self._whole = whole
        self._history = history
        self._lost = rarest & history.frequencies.keys()
        self._cached: dict[str, dict[str, int]] = {}

    def __contains__(self, query: str) -> bool:
        return query in self.frequencies and query not in self._lost

    def frequency(self, query: str) -> int:
        """How often other users typed the query."""
        if query not in self:
            return 0
        return self.frequencies[query] - self._history.frequencies.get(query, 0)

    def followers(self, anchor: str) -> Mapping[str, int]:
        """The queries that followed the anchor in other users' sessions."""
        if anchor not in self._cached:
            self._cached[anchor] = self._count(anchor) if anchor in self else {}
        return self._cached[anchor]

    def most_frequent(self, n: int) -> list[tuple[str, int]]:
        """The `n` queries that other users typed most often."""
        # Own queries move down: with as many more as the user has, none can be missing.
        more = self._whole.most_frequent(n + len(self._history.frequencies))
        counts = {text: self.frequency(text) for text, _ in more if text in self}
        return BackgroundCounts(counts, {}).most_frequent(n)

    def _count(self, anchor: str) -> dict[str, int]:
        own: Mapping[str, int] = self._history.followers.get(anchor, {})
        counts = {text: n - own.get(text, 0) for text, n in self._whole.followers(anchor).items()}
        return {text: n for text, n in counts.items() if n and text not in self._lost}


class Backgrounds:
    """The background as the cases of each user see it: whole, or without the user's own past."""

    def __init__(
        self,
        whole: BackgroundCounts,
        histories: Mapping[str, UserHistory] | None = None,
        rarest: RarestTexts | None = None,
    ) -> None:
        self.whole = whole
        self._histories = histories or {}
        self._rarest = rarest.queries if rarest else frozenset()
        self._without: dict[str, BackgroundCounts] = {}

    def of(self, user: str) -> BackgroundCounts:
        """What counts for this user."""
        history = self._histories.get(user)
        if history is None:
            return self.whole
        if user not in self._without:
            self._without[user] = CountsWithoutUser(self.whole, history, self._rarest)
        return self._without[user]


def _beginnings(query: str) -> Iterable[str]:
    words = query.split()
    return (" ".join(words[:length]) for length in range(1, len(words) + 1))

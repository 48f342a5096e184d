"""Candidates: the queries that most often follow the anchor in the background (ADJ).

Knows the count tables of a prepared data folder. Does not know sessions, scenarios or features. The
count models keep the same counts in compact arrays (`suggesters/background.py`); the long-tail rule
is the one function there, and a test holds both to the same order of followers.
"""

from collections.abc import Iterable

import polars as pl

from nextquery.logs.data_folder import PreparedData
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
            found = {known_beginning(anchor, frequencies.__contains__) for anchor in anchors}
            wanted = pl.LazyFrame({"anchor": sorted(found)}, schema={"anchor": pl.String})
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
        return known_beginning(query, self.frequencies.__contains__)

    def followers(self, anchor: str) -> dict[str, int]:
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

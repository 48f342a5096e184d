"""Rescue: after a query that found nothing, what people who had found nothing searched for next.

    P(q | a) = (c(a, q) + P(q)) / (c(a) + 1)

`c(a, q)` counts the sessions in which `q` was the first query after `a` that found something. `a`
finds nothing: by the site's hits check when the model was fitted, or, without one, because nobody
ever clicked on a result. A query that nobody typed is answered by the failed ones most like it
(Jaccard overlap of trigrams), their counts weighed by the likeness. A query that finds something
has no list here. Queries before the last one are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import marisa_trie
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import check_offsets, check_range, load_trie
from nextquery.guard.guard import HitsCheck
from nextquery.records import Suggestion
from nextquery.suggesters.background import (
    DAY,
    Ages,
    AgingSettings,
    Background,
    Followers,
    count_background,
    load_record,
    save_record,
    save_trie,
)
from nextquery.suggesters.count_suggester import CountSuggester
from nextquery.text.vectors import trigrams

if TYPE_CHECKING:
    import polars as pl

    from nextquery.suggesters.sequences import BackgroundLog


class RescueSettings(AgingSettings):
    """How a failed query that nobody typed is looked up."""

    similar: int = Field(default=20, ge=0)
    """Number of similar failed queries that are considered; 0: none."""
    likeness: float = Field(default=0.4, gt=0, le=1)
    """Share of common trigrams from which on a query is like another."""


@dataclass(frozen=True)
class Trigrams:
    """The failed queries that have each trigram."""

    offsets: NDArray[np.int64]
    queries: NDArray[np.int32]
    """Those of trigram `t` at `offsets[t]:offsets[t + 1]`."""


class Rescue(CountSuggester[RescueSettings]):
    """What people who found nothing searched for next, most frequent first."""

    kind = "rescue"
    settings_type = RescueSettings

    def __init__(
        self,
        settings: RescueSettings,
        background: Background,
        followers: Followers,
        names: Any,
        trigrams: Trigrams,
    ) -> None:
        super().__init__(settings, background)
        self.followers = followers
        self.names = names
        """A trie of the trigrams, which numbers them."""
        self.trigrams = trigrams

    def fails(self, query: str) -> bool:
        """Whether a normalised query is one that was seen to find nothing."""
        query_id = self.background.id(query)
        return query_id is not None and self.followers.total(query_id) > 0

    def best(self, context: Sequence[str], limit: int) -> list[Suggestion]:
        """What came next, most often first."""
        counts, total = self._counts(context)
        suggestions = [
            Suggestion(
                self.background.text(query),
                self.background.log_after(query, count, total),
                _source(count),
            )
            for query, count in counts.items()
        ]
        return sorted(suggestions, key=lambda item: (-item.score, item.text))[:limit]

    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """The smoothed probability after a failed query, or the prior."""
        counts, total = self._counts(context)
        ids = [self.background.id(candidate) for candidate in candidates]
        return [
            self.background.log_prior(candidate) - log(total + 1)
            if query is None
            else self.background.log_after(query, counts.get(query, 0.0), total)
            for query, candidate in zip(ids, candidates, strict=True)
        ]

    def write(self, folder: Path) -> None:
        """Write the table of followers and the index of trigrams."""
        self.followers.save(folder)
        save_trie(folder, "trigrams.trie", self.names)
        save_record(folder, "trigrams", self.trigrams)

    @classmethod
    def read(cls, artifact: Artifact, settings: RescueSettings, background: Background) -> Self:
        """Map what `write` wrote."""
        names = load_trie(artifact, "trigrams.trie")
        trigrams = load_record(artifact, "trigrams", Trigrams)
        return cls(settings, background, Followers.load(artifact), names, trigrams)

    def check(self) -> None:
        """Refuse contents that do not fit together."""
        super().check()
        size = len(self.background.counts)
        self.followers.check(size, size)
        trigrams = self.trigrams
        check_offsets("trigrams_offsets", trigrams.offsets, len(self.names), len(trigrams.queries))
        check_range("trigrams_queries", trigrams.queries, size)

    def _counts(self, context: Sequence[str]) -> tuple[dict[int, float], float]:
        """How often each query came next, and how often anything did."""
        counts: dict[int, float] = {}
        total = 0.0
        query_id = self.background.id(context[-1]) if context else None
        rows = [(query_id, 1.0)] if query_id is not None else self._similar_queries(context)
        for row, weight in rows:
            total += weight * self.followers.total(row)
            followers = self.followers.most_frequent(row, self.followers.size(row))
            for query, count in zip(*(column.tolist() for column in followers), strict=True):
                counts[query] = counts.get(query, 0.0) + weight * count
        return counts, total

    def _similar_queries(self, context: Sequence[str]) -> list[tuple[int, float]]:
        """The failed queries most like one that nobody typed, with their likeness as weights."""
        if not context:
            return []
        query_trigrams = trigrams(context[-1])
        numbers = [self.names[gram] for gram in query_trigrams if gram in self.names]
        if not numbers or not self.settings.similar:
            return []
        offsets, queries = self.trigrams.offsets, self.trigrams.queries
        rows, shared = np.unique(
            np.concatenate([queries[offsets[n] : offsets[n + 1]] for n in numbers]),
            return_counts=True,
        )
        likeness = shared / (self._sizes[rows] + len(query_trigrams) - shared)
        order = np.lexsort((rows, -likeness))[: self.settings.similar]
        fine = order[likeness[order] >= self.settings.likeness]
        return list(zip(rows[fine].tolist(), likeness[fine].tolist(), strict=True))

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        """How many trigrams each failed query has."""
        return np.bincount(self.trigrams.queries, minlength=len(self.background.counts))


def rescued(
    suggestions: Sequence[Suggestion], rescue: Sequence[Suggestion], n: int
) -> list[Suggestion]:
    """`n` suggestions: first what people who found nothing searched for, then the model's own.

    >>> shown = [Suggestion("rome", -1.0, "synthetic"), Suggestion("paris", -2.0, "synthetic")]
    >>> [item.text for item in rescued(shown, [Suggestion("paris", -1.0, _source(3))], 2)]
    ['paris', 'rome']
    """
    texts = {suggestion.text for suggestion in rescue}
    return [*rescue, *(suggestion for suggestion in suggestions if suggestion.text not in texts)][
        :n
    ]


def _source(count: float) -> str:
    times = max(1, round(count))
    return (
        f"people who found nothing then searched for this ({times} time{'' if times == 1 else 's'})"
    )


def fit_rescue(
    log: BackgroundLog, settings: RescueSettings, hits: HitsCheck | None = None
) -> Rescue:
    """Count what came next; whether a query finds something is the check's word, or a click's."""
    from nextquery.suggesters.sequences import count_followers

    background = count_background(log.data)
    pairs = _next_found(log, _finds_something(log, hits), log.ages(settings))
    followers = count_followers(log, background, pairs, settings.useful_weight)
    failed = pairs["query"].unique().sort().to_list()
    return Rescue(settings, background, followers, *_index(background, failed))


def _finds_something(log: BackgroundLog, hits: HitsCheck | None) -> pl.DataFrame:
    """The known queries, and whether each finds something: query, found."""
    import polars as pl

    known_log = log.known()
    if hits is None:
        rows = log.data.search_rows("background").group_by("query")
        clicked = rows.agg((pl.col("clicks").sum() > 0).alias("found")).collect()
        return known_log.join(clicked, on="query", how="left").with_columns(
            pl.col("found").fill_null(value=False)
        )
    return known_log.with_columns(
        pl.Series("found", [hits(query) for query in known_log["query"]], dtype=pl.Boolean)
    )


def _next_found(log: BackgroundLog, known: pl.DataFrame, ages: Ages | None) -> pl.DataFrame:
    """Failed queries and the next query that found something: query, next, count of sessions.

    A session belongs to the day on which the query first failed in it.
    """
    import polars as pl

    rows = log.data.session_rows("background").join(known.lazy(), on="query", how="left")
    later = pl.when("found").then("query").shift(-1).backward_fill().over("session")
    sessions = (
        rows.sort("session", "position")
        .with_columns(next=later)
        .filter(pl.col("found").not_() & pl.col("next").is_not_null())
        .group_by("query", "next", "session")
        .agg(pl.col("time").min().dt.date().alias(DAY))
    )
    keys = ["query", "next"]
    if ages is None:
        counted = sessions.group_by(keys).agg(count=pl.len().cast(pl.Int64)).sort(keys)
        return counted.collect()
    daily = sessions.group_by(*keys, DAY).agg(count=pl.len().cast(pl.Int64)).collect()
    return ages.weigh(daily, keys)


def _index(background: Background, failed: Sequence[str]) -> tuple[object, Trigrams]:
    """The trigrams of the failed queries: a trie that numbers them, and the queries of each."""
    queries_of: dict[str, list[int]] = defaultdict(list)
    for query in failed:
        for gram in trigrams(query):
            queries_of[gram].append(background.queries[query])
    names = marisa_trie.Trie(queries_of)
    lists = [sorted(queries_of[names.restore_key(number)]) for number in range(len(names))]
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(row) for row in lists], out=offsets[1:])
    queries = np.array([query for row in lists for query in row], dtype=np.int32)
    return names, Trigrams(offsets, queries)

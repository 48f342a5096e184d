"""Adjacency (ADJ): the queries that most often followed the anchor in the background.

    P(q | a) = (c(a, q) + P(q)) / (c(a) + 1)

`c(a, q)` counts how often `q` came directly after the anchor `a`, `c(a)` how often anything did.
`P(q)` is the background's prior: one imaginary observation, so that every text has a probability
and equal counts are ordered by frequency. An anchor never seen loses words from its end until a
seen query remains (the paper's long-tail rule). Queries before the anchor are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from nextquery.artifacts import Artifact
from nextquery.records import Suggestion
from nextquery.suggesters.background import (
    DAY,
    Ages,
    AgingSettings,
    Background,
    Followers,
    count_background,
    with_day,
)
from nextquery.suggesters.count_suggester import CountSuggester, seen

if TYPE_CHECKING:
    import polars as pl

    from nextquery.suggesters.sequences import BackgroundLog


class AdjacencySettings(AgingSettings):
    """How an anchor is looked up."""

    shorten: bool = True
    """Drop words from the end of an anchor never seen until a seen query remains."""


class Adjacency(CountSuggester[AdjacencySettings]):
    """The followers of the last query, most frequent first, ties by frequency and text."""

    kind = "adjacency"
    settings_type = AdjacencySettings

    def __init__(
        self, settings: AdjacencySettings, background: Background, followers: Followers
    ) -> None:
        super().__init__(settings, background)
        self.followers = followers

    def best(self, context: Sequence[str], limit: int) -> list[Suggestion]:
        """The most frequent followers of the anchor; none if it was never seen."""
        anchor, source = self._anchor(context)
        if anchor is None:
            return []
        total = self.followers.total(anchor)
        ids, counts = self.followers.most_frequent(anchor, limit)
        return [
            Suggestion(
                self.background.text(query),
                self.background.log_after(query, count, total),
                seen(count, source),
            )
            for query, count in zip(ids.tolist(), counts.tolist(), strict=True)
        ]

    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """The smoothed probability after the anchor, or the prior without one."""
        anchor, _ = self._anchor(context)
        if anchor is None:
            return [self.background.log_prior(candidate) for candidate in candidates]
        known = [self.background.id(candidate) for candidate in candidates]
        ids = np.array([-1 if query is None else query for query in known], np.int64)
        total, counts = self.followers.total(anchor), self.followers.count(anchor, ids).tolist()
        return [
            self.background.log_prior(candidate) - log(total + 1)
            if query is None
            else self.background.log_after(query, count, total)
            for query, candidate, count in zip(known, candidates, counts, strict=True)
        ]

    def write(self, folder: Path) -> None:
        """Write the table of followers."""
        self.followers.save(folder)

    @classmethod
    def read(cls, artifact: Artifact, settings: AdjacencySettings, background: Background) -> Self:
        """Map the table of followers."""
        return cls(settings, background, Followers.load(artifact))

    def check(self) -> None:
        """Refuse contents that do not fit together."""
        super().check()
        self.followers.check(len(self.background.counts), len(self.background.counts))

    def _anchor(self, context: Sequence[str]) -> tuple[int | None, str]:
        """The query whose followers count, if any, and where suggestions were seen."""
        known = self.background.newest_known(context[-1:], shorten=self.settings.shorten)
        if known.shortened_to is None:
            return next(iter(known.queries), None), "after the last query"
        return known.queries[0], f"after {known.shortened_to!r}: the last query was never seen"


def fit_adjacency(log: BackgroundLog, settings: AdjacencySettings) -> Adjacency:
    """Number the pairs that `prepare` counted, or those of each day by their age."""
    from nextquery.suggesters.sequences import count_followers

    background = count_background(log.data)
    ages = log.ages(settings)
    pairs = _counted(log) if ages is None else _weighed(log, ages)
    followers = count_followers(log, background, pairs, settings.useful_weight)
    return Adjacency(settings, background, followers)


def _counted(log: BackgroundLog) -> pl.DataFrame:
    import polars as pl

    pairs = log.data.counts("followers")
    return pairs.select(pl.col("anchor").alias("query"), "next", "count").collect()


def _weighed(log: BackgroundLog, ages: Ages) -> pl.DataFrame:
    """The same pairs; one belongs to the day of its first query."""
    import narwhals as nw
    import polars as pl

    from nextquery.suggesters.sequences import collected

    after = nw.col("query").shift(-1).over("session", order_by="position")
    known_log = log.known()
    pairs = with_day(log.rows()).with_columns(next=after).drop_nulls(["next"])
    pairs = pairs.select("query", "next", DAY)
    for side in ("query", "next"):
        table = log.table(known_log.select(pl.col("query").alias(side)), f"known-{side}")
        pairs = pairs.join(table, on=side, how="semi")
    daily = collected(pairs.group_by("query", "next", DAY).agg(nw.len().alias("count")))
    return ages.weigh(daily, ["query", "next"])

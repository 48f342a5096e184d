"""Popularity: the most frequent queries of the background, whatever the context.

    P(q) = w(q) / (W + 1)        w(q) the sum of the weights of the query's occurrences, W of all

An occurrence weighs 1, or, with a half-life, 1/2 for each half-life between its day and the last
day of the background. With `trending_days` only trending queries have a weight: the number
of users who typed them in the last days.

`DropWords` and `LastCompletions` are trivial rules that any model has to beat: shorten the last
query, or complete it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import check_length, check_range, load_array, require
from nextquery.errors import InputError
from nextquery.logs.settings import TrendSettings
from nextquery.records import Suggestion
from nextquery.suggesters.background import (
    DAY,
    Ages,
    AgingSettings,
    Background,
    count_background,
    heaviest_first,
    save_array,
    with_day,
)
from nextquery.suggesters.count_suggester import CountSuggester, clean, seen

if TYPE_CHECKING:
    from nextquery.suggesters.sequences import BackgroundLog


_LEAST = 2.0**-40
"""Least weight of a known query: one outside the window has a probability, too."""


class PopularitySettings(AgingSettings):
    """How popularity is measured."""

    trending_days: int | None = Field(default=None, ge=1, le=3660)
    """Only queries trending in the last N days of the log, as in `nextquery trends`, by the
    users of these days; none: all queries of the background."""
    trending_past_days: int = Field(default=TrendSettings.past_days, ge=1, le=3660)
    """The days before them, which they are compared with."""


class Popularity(CountSuggester[PopularitySettings]):
    """The most frequent queries, most frequent first."""

    kind = "popularity"
    settings_type = PopularitySettings
    may_be_empty = True

    def __init__(
        self,
        settings: PopularitySettings,
        background: Background,
        weights: NDArray[np.float64],
        order: NDArray[np.int32],
    ) -> None:
        super().__init__(settings, background)
        self.weights = weights
        """The weight of each query, by its number."""
        self.order = order
        """The numbers of the queries that weigh anything, heaviest first, ties by text."""

    @cached_property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.weights.sum())

    def best(self, context: Sequence[str], limit: int) -> list[Suggestion]:
        """The heaviest queries; the context does not matter."""
        return [
            Suggestion(
                self.background.text(query),
                float(np.log(self.weights[query] / (self.total + 1))),
                seen(int(self.background.counts[query])),
            )
            for query in self.order[:limit].tolist()
        ]

    def expected(self, context: Sequence[str], limit: int) -> list[str]:
        """None: a session makes no query likelier."""
        return []

    def frequency(self, query: str, count: int) -> float:
        """The weight of the query."""
        query_id = self.background.id(query)
        return 0.0 if query_id is None else float(self.weights[query_id])

    def log_priors(self, texts: Sequence[str]) -> list[float]:
        """The same as after a session, so that specificity changes no order."""
        return self.log_probabilities((), texts)

    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """The weight of a known query; what is left over for the others."""
        return [self._log_probability(candidate) for candidate in candidates]

    def _log_probability(self, candidate: str) -> float:
        query_id = self.background.id(candidate)
        if query_id is None:
            rescale = (self.background.total + 1) / (self.total + 1)
            return self.background.log_prior(candidate) + float(np.log(rescale))
        weight = max(float(self.weights[query_id]), _LEAST)
        return float(np.log(weight / (self.total + 1)))

    def write(self, folder: Path) -> None:
        """Write the weights and the order."""
        save_array(folder, "weights.npy", self.weights)
        save_array(folder, "order.npy", self.order)

    @classmethod
    def read(cls, artifact: Artifact, settings: PopularitySettings, background: Background) -> Self:
        """Map the weights and the order."""
        weights = load_array(artifact, "weights.npy")
        return cls(settings, background, weights, load_array(artifact, "order.npy"))

    def check(self) -> None:
        """Refuse contents that do not fit together."""
        super().check()
        size = len(self.background.counts)
        check_length("weights", self.weights, size)
        fine = np.isfinite(self.weights).all() and (self.weights >= 0).all()
        require(bool(fine), "weights has a value that is not a weight")
        check_range("order", self.order, size)
        require(len(np.unique(self.order)) == len(self.order), "order repeats one")
        require(bool((self.weights[self.order] > 0).all()), "order has a query without weight")


def fit_popularity(log: BackgroundLog, settings: PopularitySettings) -> Popularity:
    """Take the counts as they are, or weigh the occurrences of each day."""
    from nextquery.suggesters.sequences import useful_factors

    # A new site may have titles before it has queries of K users.
    background = count_background(log.data, may_be_empty=bool(log.data.titles()))
    weights = background.counts.astype(np.float64)
    ages = log.ages(settings)
    if ages is not None:
        weights = _weighed(log, background, ages)
    if settings.trending_days is not None:
        weights = _trending(log, background, settings)
    factors = useful_factors(log, background, settings.useful_weight)
    if factors is not None:
        weights = weights * factors
    order = heaviest_first(background, weights)
    return Popularity(settings, background, weights, order[weights[order] > 0])


def _trending(
    log: BackgroundLog, background: Background, settings: PopularitySettings
) -> NDArray[np.float64]:
    """The weight of each query that rises: its users in the last days; the others weigh nothing.

    What is not known to the background, and so to the guard, is left out.
    """
    from nextquery.logs.trends import find_trends

    if settings.ages:
        raise InputError("`trending_days` goes with neither `half_life_days` nor `window_days`")
    chosen = TrendSettings(settings.trending_days or 1, settings.trending_past_days)
    trends = find_trends(log.data, chosen).trends
    users = np.array([trend.users for trend in trends])
    return background.by_number([trend.query for trend in trends], users)


def _weighed(log: BackgroundLog, background: Background, ages: Ages) -> NDArray[np.float64]:
    """The weight of each query: its occurrences a day, less with every day of age."""
    import narwhals as nw

    from nextquery.suggesters.sequences import collected

    days = with_day(log.searches()).group_by("query", DAY).agg(nw.len().alias("count"))
    totals = ages.weigh(collected(days), ["query"])
    return background.by_number(totals["query"].to_list(), totals["count"].to_numpy())


MOST_WORDS = 10
"""A longer query is shortened as if it had only its first words."""


class DropWords:
    """The last query without some of its words, fewest first; then the most popular queries."""

    kind = "drop words"

    def __init__(self, popularity: Popularity) -> None:
        self._popularity = popularity

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """At most `n` suggestions; never a query of the context."""
        queries, guard = clean(context), self._popularity.guard
        own_text = guard.own_text(queries)
        texts = dict.fromkeys(shortened(queries[-1]) if queries else ())
        allowed = (t for t in texts if t not in queries and guard.allows(t, own_text))
        suggestions = [
            Suggestion(text, -float(rank), guard.source(text))
            for rank, text in zip(range(n), allowed, strict=False)
        ]
        popular = self._popularity.suggest(context, n)
        return [
            *suggestions,
            *(suggestion for suggestion in popular if suggestion.text not in texts),
        ][:n]


def shortened(query: str) -> Iterator[str]:
    """The query with fewer words, in their order; words at the end are dropped first.

    >>> list(shortened("cheap paris hotels"))
    ['cheap paris', 'cheap hotels', 'paris hotels', 'cheap', 'paris', 'hotels']
    """
    words = query.split()[:MOST_WORDS]
    for count in range(len(words) - 1, 0, -1):
        yield from (" ".join(some_words) for some_words in combinations(words, count))


class LastCompletions:
    """Known queries that begin with the last query, most popular first."""

    kind = "completions"

    def __init__(self, popularity: Popularity) -> None:
        self._popularity = popularity

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """At most `n` suggestions; never a query of the context."""
        queries = clean(context)
        return self._popularity.complete(context, f"{queries[-1]} ", n) if queries else []

"""Lists for returning and first-time visitors apart, with and without their own earlier queries.

For each request: is the next query in the list, in the group `again`, in what is shown (the first
five of the list and up to three of `again` that the list does not show)? `again` is compared with
the rule "last three distinct queries". Intervals resample users.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.evaluation.comparison import RESAMPLES, user_numbers
from nextquery.evaluation.lists import rank_in, suggest_all
from nextquery.evaluation.steps import OPTIONAL, Steps
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.ranking.cases import BackgroundCounts
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.returning import Returning, ReturningSettings
from nextquery.suggesters.returning_fit import PastRequest, fit_returning, read_requests

SHOWN = 5
"""Suggestions of a list that are shown, before `again`."""
AGAIN = 3
FREQUENT = 100
"""A next query is informational if it is not one of this many most frequent queries."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Texts = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Estimate:
    """A mean or share with its 95% interval over users."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ListQuality:
    """How often, and how far ahead, lists have the next query."""

    hit_1: Estimate
    hit_5: Estimate
    hit_10: Estimate
    hit: Estimate
    """Anywhere in the list."""
    mrr: Estimate
    informational_mrr: Estimate | None = field(default=None, metadata=OPTIONAL)
    """Of the requests whose next query is not one of the 100 most frequent."""


@dataclass(frozen=True)
class GroupQuality:
    """A group of a visitor's own earlier queries."""

    lists: ListQuality
    shown: Estimate
    """The share of requests in which there is any."""
    precision: Estimate | None = field(default=None, metadata=OPTIONAL)
    """The share of its queries that are the next query."""
    precision_when_shown: Estimate | None = field(default=None, metadata=OPTIONAL)
    """The share of the groups shown that have the next query."""


@dataclass(frozen=True)
class VisitorResult:
    """Requests of one group of visitors."""

    requests: int
    users: int
    next_query_typed_before: float
    """The share of requests whose next query is in the visitor's history: an upper bound."""
    again: GroupQuality
    last_three: GroupQuality
    """What the last three distinct queries would give."""
    lists: Mapping[str, ListQuality]
    """Each system's list alone, ten suggestions."""
    shown: Mapping[str, ListQuality]
    """What a visitor sees: five suggestions, then `again`."""
    precision_ratio: Estimate | None = field(default=None, metadata=OPTIONAL)
    """The precision of `again` over that of the last three distinct queries."""


@dataclass(frozen=True)
class ReturningResult:
    """Returning and first-time visitors, in the test split and among users kept aside."""

    visitors: Mapping[str, VisitorResult] = field(default_factory=dict)
    """By split and group of visitors: `test: returning`, ..."""
    threshold: float | None = None
    """The least probability that is shown."""
    too_few: str | None = field(default=None, metadata=OPTIONAL)
    """Why nothing was measured."""


def returning_result(
    data: PreparedData,
    suggesters: Mapping[str, Suggester],
    background: BackgroundCounts,
    contexts: int,
    seed: int,
    steps: Steps,
) -> ReturningResult:
    """Fit the model of returning visitors and measure it with every system's lists.

    In each split the last requests of up to `contexts` sessions are drawn.
    """
    try:
        model = fit_returning(data, ReturningSettings(seed=seed))
        samples = {
            split: read_requests(data, split, contexts, seed, last_only=True)
            for split in ("test", UNSEEN_USERS)
            if split in data.splits
        }
    except InputError as error:
        return ReturningResult(too_few=str(error))
    frequent = frequent_queries(background)
    visitors: dict[str, VisitorResult] = {}
    for split, requests in samples.items():
        contexts_of_split = [request.context for request in requests]
        lists = {
            name: suggest_all(suggester, contexts_of_split, steps.track(f"{split}, {name}"))
            for name, suggester in suggesters.items()
        }
        for name, is_returning in (("returning", True), ("first-time", False)):
            chosen = [n for n, request in enumerate(requests) if request.returning == is_returning]
            if chosen:
                lists_of_group = {key: [rows[n] for n in chosen] for key, rows in lists.items()}
                group = [requests[n] for n in chosen]
                visitors[f"{split}: {name}"] = measure(model, group, lists_of_group, frequent)
    return ReturningResult(visitors, model.threshold)


def frequent_queries(background: BackgroundCounts) -> set[str]:
    """The queries that are not informational."""
    return {query for query, _ in background.most_frequent(FREQUENT)}


def measure(
    model: Returning,
    requests: Sequence[PastRequest],
    lists: Mapping[str, Texts],
    frequent: set[str],
) -> VisitorResult:
    """How often lists, `again` and both together have the next query of requests."""
    cases = _Cases(requests, frequent)
    likeliest = [
        [
            suggestion.text
            for suggestion in model.again(
                request.context, request.history, request.now, SHOWN + AGAIN
            )
        ]
        for request in requests
    ]
    again = [texts[:AGAIN] for texts in likeliest]
    last_three = [
        [entry.text for entry in request.history if entry.text != request.context[-1]][:AGAIN]
        for request in requests
    ]
    typed = [
        any(entry.text == request.next_query for entry in request.history) for request in requests
    ]
    together = {
        name: [_shown(texts, earlier) for texts, earlier in zip(rows, likeliest, strict=True)]
        for name, rows in lists.items()
    }
    return VisitorResult(
        requests=len(requests),
        users=len({request.user for request in requests}),
        next_query_typed_before=float(np.mean(typed)),
        again=cases.group(again),
        last_three=cases.group(last_three),
        lists={name: cases.quality([row[:10] for row in rows]) for name, rows in lists.items()},
        shown={name: cases.quality(rows) for name, rows in together.items()},
        precision_ratio=cases.precision_ratio(again, last_three),
    )


def _shown(suggestions: Sequence[str], earlier: Sequence[str]) -> list[str]:
    """What the service shows: earlier queries that the list has are not repeated."""
    listed = list(suggestions[:SHOWN])
    return [*listed, *[text for text in earlier if text not in listed][:AGAIN]]


class _Cases:
    """The next queries of requests, and their users."""

    def __init__(self, requests: Sequence[PastRequest], frequent: set[str]) -> None:
        self._next_queries = [request.next_query for request in requests]
        self._users = user_numbers([request.user for request in requests])
        self._informational = np.array([query not in frequent for query in self._next_queries])

    def quality(self, lists: Texts) -> ListQuality:
        """How well lists have the next query."""
        ranks = np.array(list(map(rank_in, lists, self._next_queries)))
        special = self._informational
        reciprocal = 1.0 / ranks
        return ListQuality(
            hit_1=self._mean(ranks <= 1),
            hit_5=self._mean(ranks <= 5),
            hit_10=self._mean(ranks <= 10),
            hit=self._mean(np.isfinite(ranks)),
            mrr=self._mean(reciprocal),
            informational_mrr=(
                estimate(reciprocal[special], np.ones(special.sum()), self._users[special])
                if special.any()
                else None
            ),
        )

    def group(self, lists: Texts) -> GroupQuality:
        """The same with how often there is a group and how precise it is."""
        hits, sizes = self._hits(lists)
        has = (sizes > 0).astype(np.float64)
        return GroupQuality(
            self.quality(lists),
            shown=self._mean(has),
            precision=estimate(hits, sizes, self._users) if has.any() else None,
            precision_when_shown=estimate(hits, has, self._users) if has.any() else None,
        )

    def _hits(self, lists: Texts) -> tuple[Floats, Floats]:
        """Whether each list has the next query, and the length of each."""
        pairs = zip(lists, self._next_queries, strict=True)
        hits = np.array([query in texts for texts, query in pairs], dtype=np.float64)
        return hits, np.array([len(texts) for texts in lists], dtype=np.float64)

    def precision_ratio(self, lists: Texts, other_lists: Texts) -> Estimate | None:
        """The precision of lists over that of other lists, users resampled together."""
        (hits, sizes), (other_hits, other_sizes) = self._hits(lists), self._hits(other_lists)
        if not sizes.any() or not other_hits.any():
            return None
        drawn, columns = _resampled(self._users, hits, sizes, other_hits, other_sizes)
        right, shown, other_right, other_shown = (drawn @ column for column in columns)
        defined = (shown > 0) & (other_right > 0)
        ratios = (right * other_shown)[defined] / (shown * other_right)[defined]
        low, high = np.quantile(ratios, [0.025, 0.975]).tolist()
        value = (hits.sum() / sizes.sum()) / (other_hits.sum() / other_sizes.sum())
        return Estimate(float(value), low, high)

    def _mean(self, values: NDArray[np.bool_] | Floats) -> Estimate:
        return estimate(values.astype(np.float64), np.ones(len(values)), self._users)


def estimate(values: Floats, sizes: Floats, users: Integers) -> Estimate:
    """sum(values) / sum(sizes) with the 95% interval of resampled users.

    >>> share = estimate(np.array([1.0, 0, 1, 0]), np.ones(4), np.array([0, 0, 1, 1]))
    >>> share.value, share.low, share.high
    (0.5, 0.5, 0.5)
    """
    drawn, (sums, totals) = _resampled(users, values, sizes)
    ratios = (drawn @ sums) / np.maximum(drawn @ totals, 1e-12)
    low, high = np.quantile(ratios, [0.025, 0.975]).round(12).tolist()
    return Estimate(float(values.sum() / sizes.sum()), low, high)


def _resampled(users: Integers, *columns: Floats) -> tuple[Integers, list[Floats]]:
    """How often each user is drawn (resamples, users), and the sum of each column per user."""
    _, numbers = np.unique(users, return_inverse=True)
    sums = [np.asarray(np.bincount(numbers, weights=column), np.float64) for column in columns]
    count = len(sums[0])
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES)
    return drawn, sums

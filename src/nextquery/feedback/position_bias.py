"""Position bias: how likely a place of the list is looked at, whatever stands there.

The position-based model: P(taken) = examination(place) x attraction(query, suggestion). Only a
suggestion that stood at several places after the same query tells the two apart (as sessions,
models and interleaving bring about); all others are left out. Both factors are found in turns, each
the ratio of what was taken to what the other expects, which maximises the likelihood of counts.
Who takes something leaves the list: places below the first that was taken do not count as shown.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.feedback.impressions import Impression
from nextquery.ranking.user_folds import user_fold

Floats = NDArray[np.float64]
ROUNDS = 200
GROUPS = 20
"""The interval is by leaving out a twentieth of the visitors in turns."""
MIN_TAKEN = 100
"""With less taken, nothing is said."""
MOST_PAIRS = 50_000
"""The most often taken pairs are enough, and bound the memory."""
LONGEST = 20
"""Places further down are taken as this one."""
WITHIN_GROUPS = 2.093
"""Student's t for a 95% interval of 20 groups."""


@dataclass(frozen=True, slots=True)
class Examination:
    """How likely a place is looked at, relative to the first."""

    position: int
    examined: float
    low: float
    high: float


@dataclass(frozen=True)
class PositionBias:
    """The estimate, and what it rests on; without enough, no places and the reason."""

    places: tuple[Examination, ...]
    pairs: int
    """Suggestions that stood at several places after the same query."""
    taken: int
    """How often these were taken."""
    too_few: str = ""

    def examined(self, place: int) -> float:
        """How likely a place, from 0, is looked at; 1 everywhere while nothing is known."""
        if not self.places:
            return 1.0
        return self.places[min(place, len(self.places) - 1)].examined


@dataclass(frozen=True)
class _Counts:
    """Shown and taken, by group of visitors, pair and place: (groups, pairs, places)."""

    shown: Floats
    taken: Floats


def estimate_position_bias(impressions: Iterable[Impression]) -> PositionBias:
    """How likely each place is looked at, with 95% intervals."""
    counts = _count(list(impressions))
    taken, pairs = int(counts.taken.sum()), counts.shown.shape[1]
    if taken < MIN_TAKEN:
        reason = (
            f"{taken} taken suggestions stood at several places after the same query; "
            f"{MIN_TAKEN} are needed"
        )
        return PositionBias((), pairs, taken, reason)
    whole = _fit(counts.shown.sum(0), counts.taken.sum(0))
    others = [
        _fit(np.delete(counts.shown, group, 0).sum(0), np.delete(counts.taken, group, 0).sum(0))
        for group in range(GROUPS)
    ]
    return PositionBias(tuple(_with_intervals(whole, others)), pairs, taken)


def _with_intervals(whole: Floats, others: Sequence[Floats]) -> Iterable[Examination]:
    """The jackknife over groups of visitors, on the logarithm."""
    logs = np.log(np.maximum(others, 1e-9))
    centred = logs - logs.mean(0)
    errors = np.sqrt((GROUPS - 1) / GROUPS * (centred**2).sum(0))
    for place, (value, error) in enumerate(zip(whole, errors, strict=True)):
        reach = math.exp(min(WITHIN_GROUPS * error, 50.0))
        yield Examination(place + 1, float(value), float(value / reach), float(value * reach))


def _count(impressions: Sequence[Impression]) -> _Counts:
    cells: defaultdict[tuple[str, str], dict[tuple[int, int], list[int]]] = defaultdict(dict)
    for each in impressions:
        group = user_fold(each.visitor, GROUPS)
        end = min(each.taken, default=len(each.suggestions) - 1) + 1
        for place, suggestion in enumerate(each.suggestions[:end]):
            cell = cells[each.query, suggestion.text].setdefault(
                (group, min(place, LONGEST - 1)), [0, 0]
            )
            cell[0] += 1
            cell[1] += place in each.taken
    # What was never taken says nothing of places: its attraction is 0 at all of them.
    telling = [
        found
        for found in cells.values()
        if len({place for _, place in found}) > 1 and any(hits for _, hits in found.values())
    ]
    telling.sort(key=lambda found: -sum(hits for _, hits in found.values()))
    return _as_arrays(telling[:MOST_PAIRS])


def _as_arrays(telling: Sequence[dict[tuple[int, int], list[int]]]) -> _Counts:
    places = _comparable([{place for _, place in found} for found in telling])
    shown, taken = np.zeros((2, GROUPS, len(telling), places))
    for pair, found in enumerate(telling):
        for (group, place), (seen, hits) in found.items():
            if place < places:
                shown[group, pair, place] = seen
                taken[group, pair, place] = hits
    return _Counts(shown, taken)


def _comparable(pairs: Sequence[set[int]]) -> int:
    """How many places from the first on are tied to each other by some suggestion at both."""
    tied = {0}
    while more := set().union(*(pair for pair in pairs if pair & tied)) - tied:
        tied |= more
    return next(place for place in range(LONGEST + 1) if place not in tied)


def _fit(shown: Floats, taken: Floats) -> Floats:
    """Examination by place, 1 at the first; counts are (pairs, places)."""
    examined = np.ones(shown.shape[1])
    for _ in range(ROUNDS):
        expected = shown @ examined
        attraction = np.divide(
            taken.sum(1), expected, out=np.zeros_like(expected), where=expected > 0
        )
        weights = attraction @ shown
        ratios = np.divide(taken.sum(0), weights, out=np.zeros_like(weights), where=weights > 0)
        new: Floats = np.maximum(ratios / max(ratios[0], 1e-9), 1e-6)
        if np.abs(new - examined).max() < 1e-6:
            return new
        examined = new
    return examined

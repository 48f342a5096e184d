"""Acceptance of suggestions with intervals, and position bias."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.feedback.impressions import Impression
from nextquery.ranking.cases import user_fold

Z = 1.959964
"""Of a 95% interval."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What was shown and taken, and the share with its 95% interval."""

    shown: int
    taken: int
    dismissed: int
    visitors: int
    share: float
    low: float
    high: float


@dataclass(slots=True)
class _Visitor:
    shown: int = 0
    taken: int = 0
    dismissed: int = 0


class AcceptanceCount:
    """Counts what each visitor was shown and took.

    >>> count = AcceptanceCount()
    >>> for visitor in range(100):
    ...     count.add(f"visitor {visitor}", taken=visitor < 20)
    >>> found = count.acceptance()
    >>> found.share, round(found.low, 3), round(found.high, 3)
    (0.2, 0.133, 0.289)
    """

    def __init__(self) -> None:
        self._visitors: defaultdict[str, _Visitor] = defaultdict(_Visitor)

    def add(self, visitor: str, *, taken: bool, dismissed: bool = False) -> None:
        """Count one list, or one suggestion, that a visitor was shown."""
        mine = self._visitors[visitor]
        mine.shown += 1
        mine.taken += taken
        mine.dismissed += dismissed

    @property
    def shown(self) -> int:
        """How many were shown."""
        return sum(each.shown for each in self._visitors.values())

    @property
    def visitors(self) -> int:
        """To how many visitors."""
        return len(self._visitors)

    def acceptance(self) -> Acceptance:
        """The share that was taken, with its interval."""
        each = self._visitors.values()
        shown, taken = self.shown, sum(visitor.taken for visitor in each)
        share = taken / shown if shown else 0.0
        pairs = [(visitor.taken, visitor.shown) for visitor in each]
        low, high = wilson(share, effective_size(pairs))
        dismissed = sum(visitor.dismissed for visitor in each)
        return Acceptance(shown, taken, dismissed, len(each), share, low, high)


def effective_size(visitors: Iterable[tuple[int, int]]) -> float:
    """How many independent observations the visitors' (taken, shown) are worth: at most all.

    Where all or none was taken, nothing tells how alike a visitor's lists are: one each.

    >>> effective_size([(1, 1), (0, 1), (0, 1), (0, 1)])
    3.0
    >>> round(effective_size([(5, 5), (0, 5), (0, 5)]), 6)
    2.0
    """
    pairs = list(visitors)
    shown = sum(n for _, n in pairs)
    share = sum(taken for taken, _ in pairs) / shown if shown else 0.0
    if len(pairs) < 2 or share in (0.0, 1.0):
        return float(len(pairs))
    spread = math.fsum((taken - share * n) ** 2 for taken, n in pairs)
    variance = spread * len(pairs) / (len(pairs) - 1) / shown**2
    if variance == 0.0:
        return float(shown)
    return min(float(shown), share * (1 - share) / variance)


def wilson(share: float, size: float) -> tuple[float, float]:
    """The 95% interval of a share of `size` observations; all is possible where there are none.

    >>> [round(limit, 3) for limit in wilson(0.0, 10)]
    [0.0, 0.278]
    """
    if size <= 0:
        return 0.0, 1.0
    middle = share + Z**2 / (2 * size)
    reach = Z * math.sqrt(share * (1 - share) / size + Z**2 / (4 * size**2))
    whole = 1 + Z**2 / size
    return max(0.0, (middle - reach) / whole), min(1.0, (middle + reach) / whole)


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

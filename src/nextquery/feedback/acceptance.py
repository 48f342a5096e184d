"""Acceptance of suggestions with intervals, and position bias."""

import math
from collections import Counter, defaultdict
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
    """How often something was shown and accepted: the share with its 95% interval."""

    shown: int
    taken: int
    dismissed: int
    visitors: int
    share: float
    low: float
    high: float


class AcceptanceCount:
    """Count what each visitor was shown and accepted.

    >>> count = AcceptanceCount()
    >>> for visitor in range(100):
    ...     count.add(f"visitor {visitor}", taken=visitor < 20)
    >>> accepted = count.acceptance()
    >>> accepted.share, round(accepted.low, 3), round(accepted.high, 3)
    (0.2, 0.133, 0.289)
    """

    def __init__(self) -> None:
        self._shown: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self._dismissed = 0

    def add(self, visitor: str, *, taken: bool, dismissed: bool = False) -> None:
        """Count one list, or one suggestion, that a visitor was shown."""
        self._shown[visitor] += 1
        self._taken[visitor] += taken
        self._dismissed += dismissed

    @property
    def shown(self) -> int:
        """Number shown."""
        return self._shown.total()

    @property
    def visitors(self) -> int:
        """Number of visitors."""
        return len(self._shown)

    def acceptance(self) -> Acceptance:
        """Return the accepted share with its interval."""
        shown, taken = self.shown, self._taken.total()
        share = taken / shown if shown else 0.0
        pairs = [(self._taken[visitor], lists) for visitor, lists in self._shown.items()]
        low, high = wilson(share, effective_size(pairs))
        return Acceptance(shown, taken, self._dismissed, self.visitors, share, low, high)


def effective_size(visitors: Iterable[tuple[int, int]]) -> float:
    """Return the effective sample size of the visitors' (accepted, shown) counts.

    If all or none were accepted, the within-visitor correlation is unknown: one per visitor.

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
    """The 95% interval of a share of `size` observations; (0, 1) without any.

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
"""Groups of visitors of the jackknife."""
MIN_TAKEN = 100
"""Minimum of accepted suggestions for an estimate."""
MOST_PAIRS = 50_000
"""Only the pairs accepted most often are used, which bounds the memory."""
LONGEST = 20
"""Lower positions are counted as this one."""
WITHIN_GROUPS = 2.093
"""Student's t for a 95% interval of 20 groups."""


@dataclass(frozen=True, slots=True)
class Examination:
    """How likely a position is examined, relative to the first."""

    position: int
    examined: float
    low: float
    high: float


@dataclass(frozen=True)
class PositionBias:
    """The estimate and its sample size; without enough data `too_few` says why."""

    positions: tuple[Examination, ...]
    pairs: int
    """Suggestions that were shown at several positions for the same query."""
    taken: int
    """How often these were accepted."""
    too_few: str = ""

    def examined(self, position: int) -> float:
        """Return how likely a zero-based position is examined; 1.0 without an estimate."""
        if not self.positions:
            return 1.0
        return self.positions[min(position, len(self.positions) - 1)].examined


def estimate_position_bias(impressions: Iterable[Impression]) -> PositionBias:
    """Estimate how likely each position is examined, with 95% intervals."""
    shown, taken = _count(impressions)
    pairs, accepted = shown.shape[1], int(taken.sum())
    if accepted < MIN_TAKEN:
        reason = (
            f"{accepted} accepted suggestions were shown at several positions for the same query; "
            f"{MIN_TAKEN} are needed"
        )
        return PositionBias((), pairs, accepted, reason)
    estimate = _fit(shown.sum(0), taken.sum(0))
    resampled = [
        _fit(np.delete(shown, group, 0).sum(0), np.delete(taken, group, 0).sum(0))
        for group in range(GROUPS)
    ]
    # The jackknife over groups of visitors, on the logarithm.
    logs = np.log(np.maximum(resampled, 1e-9))
    centred = logs - logs.mean(0)
    errors = np.sqrt((GROUPS - 1) / GROUPS * (centred**2).sum(0))
    positions = []
    for position, (value, error) in enumerate(zip(estimate, errors, strict=True), start=1):
        reach = math.exp(min(WITHIN_GROUPS * error, 50.0))
        positions.append(
            Examination(position, float(value), float(value / reach), float(value * reach))
        )
    return PositionBias(tuple(positions), pairs, accepted)


def _count(impressions: Iterable[Impression]) -> tuple[Floats, Floats]:
    """How often each was shown and accepted: (groups of visitors, pairs, positions) each."""
    cells: defaultdict[tuple[str, str], dict[tuple[int, int], list[int]]] = defaultdict(dict)
    for impression in impressions:
        group = user_fold(impression.visitor, GROUPS)
        for position, suggestion in enumerate(impression.examined):
            cell = cells[impression.query, suggestion.text].setdefault(
                (group, min(position, LONGEST - 1)), [0, 0]
            )
            cell[0] += 1
            cell[1] += position in impression.taken
    # Suggestions that were never accepted carry no information about positions.
    informative = [
        cell_counts
        for cell_counts in cells.values()
        if len({position for _, position in cell_counts}) > 1
        and any(hits for _, hits in cell_counts.values())
    ]
    informative.sort(key=lambda cell_counts: -sum(hits for _, hits in cell_counts.values()))
    del informative[MOST_PAIRS:]
    positions = _comparable(
        [{position for _, position in cell_counts} for cell_counts in informative]
    )
    shown, taken = np.zeros((2, GROUPS, len(informative), positions))
    for pair, cell_counts in enumerate(informative):
        for (group, position), (seen, hits) in cell_counts.items():
            if position < positions:
                shown[group, pair, position] = seen
                taken[group, pair, position] = hits
    return shown, taken


def _comparable(pairs: Sequence[set[int]]) -> int:
    """Count the leading positions that are connected by suggestions shown at both."""
    tied = {0}
    while more := set().union(*(pair for pair in pairs if pair & tied)) - tied:
        tied |= more
    return next(position for position in range(LONGEST + 1) if position not in tied)


def _fit(shown: Floats, taken: Floats) -> Floats:
    """Fit examination by position, 1 at the first; counts are (pairs, positions)."""
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

"""Acceptance: how often what was shown was taken, with an interval.

What one visitor does is not independent: the interval is Wilson's (1927) for as many independent
observations as the visitors' differences leave (the design effect; Korn and Graubard, 1998).
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

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

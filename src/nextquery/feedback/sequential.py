"""Tests that may be looked at every day: always-valid p-values and intervals.

A p-value made for one look finds a winner among equals far too often when it is looked at again and
again. Here the evidence is a martingale under equality (a likelihood ratio against a mixture of
differences), which exceeds 1/alpha at any time with probability at most alpha (Ville's inequality).

    votes        each visitor prefers one of two: exact, a Beta mixture of preferences
    differences  of two shares with estimated variances: the mixture SPRT (Johari et al. 2017),
                 by the normal approximation

Knows numbers only.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln
from scipy.stats import norm

Floats = NDArray[np.float64]
MOST = 10**9
"""No trial is planned to be longer."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What all looks so far say."""

    p: float
    """Valid however often one looked."""
    estimate: float
    low: float
    high: float
    crossed: float
    """The estimate when the evidence first sufficed; not a number if it never did."""


@dataclass(frozen=True)
class VoteTest:
    """Whether visitors who prefer one of two prefer the second more or less often than the first.

    `effect` is how far from 1/2 a preference lies that the test is made for.

    >>> test = VoteTest(effect=0.05, alpha=0.05)
    >>> round(test.evidence(np.ones(60)).p, 3), round(test.evidence(np.tile([0.0, 1.0], 30)).p, 3)
    (0.0, 1.0)
    """

    effect: float
    alpha: float

    @property
    def _weight(self) -> float:
        """The parameter of the Beta mixture, whose standard deviation is the effect."""
        return max((1 / (4 * self.effect**2) - 1) / 2, 0.5)

    def _log_evidence(self, wins: Floats, losses: Floats) -> Floats:
        """Against a preference of 1/2."""
        weight = self._weight
        mixture = betaln(weight + wins, weight + losses) - betaln(weight, weight)
        found: Floats = mixture + (wins + losses) * math.log(2)
        return found

    def evidence(self, votes: Floats) -> Evidence:
        """The evidence of votes in their order: 1 for the second, 0 for the first."""
        if not len(votes):
            return Evidence(1.0, 0.5, 0.0, 1.0, math.nan)
        wins = np.cumsum(votes)
        losses = np.arange(1, len(votes) + 1) - wins
        logs = self._log_evidence(wins, losses)
        low, high = self._interval(float(wins[-1]), float(losses[-1]))
        reached = np.flatnonzero(logs >= -math.log(self.alpha))
        crossed = float(wins[reached[0]] / (reached[0] + 1)) if len(reached) else math.nan
        p = min(1.0, math.exp(-float(logs.max())))
        return Evidence(p, float(wins[-1] / len(votes)), low, high, crossed)

    def _interval(self, wins: float, losses: float) -> tuple[float, float]:
        """All preferences that the evidence does not speak against."""
        shares = np.linspace(0.0005, 0.9995, 2000)
        mixture = betaln(self._weight + wins, self._weight + losses)
        under = wins * np.log(shares) + losses * np.log1p(-shares)
        logs = mixture - betaln(self._weight, self._weight) - under
        kept = shares[logs < -math.log(self.alpha)]
        return (float(kept[0]), float(kept[-1])) if len(kept) else (0.0, 1.0)

    def votes_needed(self, preference: float, power: float) -> int:
        """After how many votes such a preference is found with probability `power`."""
        distance = abs(preference - 0.5)
        if distance == 0.0:
            return MOST
        spread = float(norm.ppf(power)) * math.sqrt(preference * (1 - preference))

        def enough(votes: int) -> bool:
            wins = votes * (0.5 + distance) - spread * math.sqrt(votes)
            if wins <= votes / 2:
                return False
            logs = self._log_evidence(np.array(wins), np.array(votes - wins))
            return bool(logs >= -math.log(self.alpha))

        return _smallest(enough)


@dataclass(frozen=True)
class DifferenceTest:
    """Whether two shares differ; `effect` is the difference that the test is made for.

    >>> test = DifferenceTest(effect=0.02, alpha=0.05)
    >>> test.evidence(np.array([0.04]), np.array([0.0001])).p < 0.05
    True
    """

    effect: float
    alpha: float

    def evidence(self, differences: Floats, variances: Floats) -> Evidence:
        """The evidence of a difference as it was estimated, look by look."""
        if not len(differences):
            return Evidence(1.0, 0.0, -1.0, 1.0, math.nan)
        logs = self._log_evidence(differences, variances)
        reached = np.flatnonzero(logs >= -math.log(self.alpha))
        crossed = float(differences[reached[0]]) if len(reached) else math.nan
        last, reach = float(differences[-1]), self._reach(float(variances[-1]))
        p = min(1.0, math.exp(-float(logs.max())))
        return Evidence(p, last, max(-1.0, last - reach), min(1.0, last + reach), crossed)

    def _log_evidence(self, differences: Floats, variances: Floats) -> Floats:
        mixed = variances + self.effect**2
        found: Floats = 0.5 * np.log(variances / mixed) + (
            self.effect**2 * differences**2 / (2 * variances * mixed)
        )
        return found

    def _reach(self, variance: float) -> float:
        """Half the width of the interval that is valid at any time."""
        mixed = variance + self.effect**2
        logs = math.log(mixed / variance) + 2 * math.log(1 / self.alpha)
        return math.sqrt(variance * mixed / self.effect**2 * logs)

    def growth_needed(self, difference: float, variance: float, power: float) -> float:
        """How many times as many visitors find such a difference with probability `power`."""
        if difference == 0.0 or variance <= 0.0:
            return float(MOST)
        spread = float(norm.ppf(power))

        def enough(hundredths: int) -> bool:
            smaller = variance * 100 / hundredths
            return abs(difference) - spread * math.sqrt(smaller) >= self._reach(smaller)

        return _smallest(enough) / 100


def _smallest(enough: Callable[[int], bool]) -> int:
    """The smallest number for which `enough` holds, which then holds for all larger ones."""
    high = 1
    while high < MOST and not enough(high):
        high *= 2
    if high >= MOST:
        return MOST
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high

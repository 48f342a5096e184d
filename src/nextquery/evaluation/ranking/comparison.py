"""The systems of a scenario compared on one split: quality, differences, p-values.

Knows ranks by system. Does not know how a system arrives at its scores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nextquery.evaluation.ranking.metrics import Quality, mean_reciprocal, quality
from nextquery.evaluation.ranking.significance import (
    bootstrap_interval,
    paired_t_test,
    paired_t_test_by_user,
)
from nextquery.evaluation.record_json import OPTIONAL
from nextquery.ranking.cases import CaseSet, Floats, Integers

BASELINES = ("baseline", "baseline_authors", "baseline_semantic", "baseline_earlier")
"""The rankers without a model; with one they are called BASELINE+MODEL."""

FEWEST_CASES = 30
"""Below this many cases a mean is not reported."""


@dataclass(frozen=True)
class Comparison:
    """System `a` against system `b` on the same cases.

    `relative` is MRR(a) / MRR(b) - 1, `difference` MRR(a) - MRR(b) with its 95% bootstrap interval,
    `p` the two-sided paired t-test's; `p_by_user` takes all cases of a user together, which matters
    where few people have many of the cases.
    """

    a: str
    b: str
    relative: float
    p: float
    difference: float
    difference_low: float
    difference_high: float
    p_by_user: float | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class RankingResult:
    """Every system on some cases, or why there is no result."""

    cases: int
    too_few: str | None = field(default=None, metadata=OPTIONAL)
    systems: Mapping[str, Quality] = field(default_factory=dict, metadata=OPTIONAL)
    comparisons: tuple[Comparison, ...] = field(default=(), metadata=OPTIONAL)


@dataclass(frozen=True)
class SystemRanks:
    """The ranks of the true next queries by system: (seeds, cases) each."""

    cases: CaseSet
    ranks: Mapping[str, Integers]

    def select(self, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> "SystemRanks":
        """The same systems on some of the cases."""
        kept = {name: ranks[:, wanted] for name, ranks in self.ranks.items()}
        return SystemRanks(self.cases.select(wanted), kept)

    def summary(self, pairs: Iterable[tuple[str, str]]) -> RankingResult:
        """The quality of every system and the comparisons asked for, or why there are none."""
        cases = len(self.cases)
        if cases < FEWEST_CASES:
            reason = f"{cases} cases; at least {FEWEST_CASES} are needed"
            return RankingResult(cases, too_few=reason)
        systems = {name: quality(ranks) for name, ranks in self.ranks.items()}
        users = [case.user for case in self.cases.cases]
        compared = tuple(compare(self.ranks, a, b, users) for a, b in pairs)
        return RankingResult(cases, systems=systems, comparisons=compared)


def rank_systems(cases: CaseSet, scores: Mapping[str, Floats]) -> SystemRanks:
    """Rank by scores of shape (candidates,) or (seeds, candidates)."""
    ranks = {
        name: np.stack([cases.ranks(row) for row in np.atleast_2d(values)])
        for name, values in scores.items()
    }
    return SystemRanks(cases, ranks)


def compare(ranks: Mapping[str, Integers], a: str, b: str, users: Sequence[str] = ()) -> Comparison:
    """The difference between two systems over the same cases; `users` says whose each case is.

    >>> ranks = {"adj": np.array([[2, 2, 1]]), "mine": np.array([[1, 2, 1]])}
    >>> round(compare(ranks, "mine", "adj").relative, 3)
    0.25
    """
    first, second = mean_reciprocal(ranks[a]), mean_reciprocal(ranks[b])
    low, high = bootstrap_interval(first - second)
    return Comparison(
        a=a,
        b=b,
        relative=float(first.mean() / second.mean() - 1.0),
        p=paired_t_test(first, second),
        difference=float((first - second).mean()),
        difference_low=low,
        difference_high=high,
        p_by_user=paired_t_test_by_user(first, second, users) if users else None,
    )


def system_pairs(systems: Iterable[str]) -> list[tuple[str, str]]:
    """The comparisons of the paper's tables: each ranker with ADJ and with its Baseline Ranker.

    And what looks at the user's earlier queries with the same that does not.

    >>> system_pairs(["adj", "baseline", "baseline+mine", "mine"])
    [('baseline', 'adj'), ('baseline+mine', 'adj'), ('baseline+mine', 'baseline')]
    """
    names = list(systems)
    pairs = [(name, "adj") for name in names if name.startswith("baseline")]
    for base in BASELINES:
        pairs += [(name, base) for name in names if name.startswith(f"{base}+")]
    knowing_more = ("baseline_semantic", "baseline_earlier")
    pairs += [(name, "baseline") for name in names if name.startswith(knowing_more)]
    pairs += [(f"{name}:earlier", name) for name in names]
    pairs += [(f"{name}:earlier_sum", name) for name in names]
    pairs += [(f"{name}:earlier_lift", f"{name}:lift") for name in names]
    return [pair for pair in pairs if pair[0] in names]

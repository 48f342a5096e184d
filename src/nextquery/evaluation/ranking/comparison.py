"""The systems of a scenario compared on one part: figures, differences, p-values.

Knows ranks by system. Does not know how a system arrives at its scores.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nextquery.evaluation.ranking.metrics import mean_reciprocal, quality
from nextquery.evaluation.ranking.significance import bootstrap_interval, paired_t_test
from nextquery.ranking.cases import CaseSet, Floats, Integers

FEWEST_CASES = 30
"""Below this many cases a mean is not reported."""


@dataclass(frozen=True)
class Comparison:
    """System `a` against system `b` on the same cases.

    `relative` is MRR(a) / MRR(b) - 1, `difference` MRR(a) - MRR(b) with its 95% bootstrap interval,
    `p` the two-sided paired t-test's.
    """

    a: str
    b: str
    relative: float
    p: float
    difference: float
    difference_low: float
    difference_high: float


@dataclass(frozen=True)
class Standings:
    """The ranks of the true next queries by system: (seeds, cases) each."""

    cases: CaseSet
    ranks: Mapping[str, Integers]

    def select(self, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> "Standings":
        """The same systems on some of the cases."""
        kept = {name: ranks[:, wanted] for name, ranks in self.ranks.items()}
        return Standings(self.cases.select(wanted), kept)

    def summary(self, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Figures of every system and the comparisons asked for, or why there are none."""
        if len(self.cases) < FEWEST_CASES:
            return {
                "cases": len(self.cases),
                "too_few": f"{len(self.cases)} cases; at least {FEWEST_CASES} are needed",
            }
        systems = {
            name: {**asdict(quality(ranks)), "mrr_by_seed": (1.0 / ranks).mean(axis=1).tolist()}
            for name, ranks in self.ranks.items()
        }
        compared = [asdict(compare(self.ranks, a, b)) for a, b in pairs]
        return {"cases": len(self.cases), "systems": systems, "comparisons": compared}


def standings(cases: CaseSet, scores: Mapping[str, Floats]) -> Standings:
    """Rank by scores of shape (candidates,) or (seeds, candidates)."""
    ranks = {
        name: np.stack([cases.ranks(row) for row in np.atleast_2d(values)])
        for name, values in scores.items()
    }
    return Standings(cases, ranks)


def compare(ranks: Mapping[str, Integers], a: str, b: str) -> Comparison:
    """The difference between two systems over the same cases."""
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
    )


def system_pairs(systems: Iterable[str]) -> list[tuple[str, str]]:
    """The comparisons of the paper's tables: each ranker with ADJ and with the Baseline Ranker."""
    names = list(systems)
    pairs = [(name, "adj") for name in names if name.startswith("baseline")]
    pairs += [(name, "baseline") for name in names if name.startswith("baseline+")]
    return pairs

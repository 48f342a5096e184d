"""Measures of rankings, differences between systems, and their significance."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from nextquery.evaluation.ranked_system import BASELINES, RankedSystem
from nextquery.evaluation.steps import OPTIONAL
from nextquery.ranking.cases import CaseSet, Floats, Integers

RESAMPLES = 2000
_BLOCK = 100


def paired_t_test(first: Floats, second: Floats) -> float:
    """The two-sided p-value of mean(first - second) = 0 over the same cases."""
    differences = first - second
    if len(differences) < 2 or np.all(differences == differences[0]):
        return 1.0 if not len(differences) or differences[0] == 0 else 0.0
    return float(stats.ttest_rel(first, second).pvalue)


def paired_t_test_by_user(first: Floats, second: Floats, users: Sequence[str]) -> float:
    """The same, with all cases of a user taken together: one person's cases are alike.

    The test is on each user's sum of differences, so that the mean over cases stays what is tested.

    >>> second = np.zeros(6)
    >>> first = np.array([0.5, 0.5, 0.5, 0.5, 0.5, -0.1])
    >>> round(paired_t_test(first, second), 3)
    0.01
    >>> round(paired_t_test_by_user(first, second, ["ann"] * 4 + ["bob", "cy"]), 3)
    0.329
    """
    _, places = np.unique(np.array(users), return_inverse=True)
    sums = np.bincount(places, weights=first - second).astype(np.float64)
    return paired_t_test(sums, np.zeros(len(sums)))


def bootstrap_interval(values: Floats, share: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """The interval that holds the mean of `share` of the resamples of `values`."""
    if not len(values):
        return float("nan"), float("nan")
    drawn = _times_drawn(len(values), seed)
    blocks = (drawn[start : start + _BLOCK] for start in range(0, RESAMPLES, _BLOCK))
    # Not a product of matrices, whose rounding may depend on the number of threads.
    sums = [np.einsum("ij,j->i", block.astype(np.float64), values) for block in blocks]
    tail = (1.0 - share) / 2.0
    low, high = np.quantile(np.concatenate(sums) / len(values), [tail, 1.0 - tail])
    return float(low), float(high)


@lru_cache(maxsize=1)
def _times_drawn(cases: int, seed: int) -> NDArray[np.uint8]:
    """How often each case is in each resample: the same for everything measured on the cases.

    A byte is enough: among more than 255 cases none is drawn 256 times, where one is expected.
    """
    generator = np.random.default_rng(seed)
    rows = np.arange(_BLOCK)[:, None] * cases
    blocks = []
    for _ in range(RESAMPLES // _BLOCK):
        places = generator.integers(0, cases, size=(_BLOCK, cases)) + rows
        counts = np.bincount(places.ravel(), minlength=_BLOCK * cases)
        blocks.append(counts.astype(np.uint8).reshape(_BLOCK, cases))
    return np.concatenate(blocks)


@dataclass(frozen=True)
class Quality:
    """The results of one system, with the 95% bootstrap interval of its MRR."""

    cases: int
    mrr: float
    mrr_low: float
    mrr_high: float
    hit_1: float
    hit_5: float
    mrr_by_seed: tuple[float, ...]
    """The MRR of each seed's ranker; one number for a system that is not learnt."""
    seed_error: float | None = field(default=None, metadata=OPTIONAL)
    """How much of the MRR is chance of the seeds: the standard error of the mean over them."""


def quality(ranks: Integers) -> Quality:
    """The quality of ranks of shape (seeds, cases): means over seeds, then over cases.

    >>> found = quality(np.array([[1, 2, 4, 1]]))
    >>> found.mrr, found.hit_1
    (0.6875, 0.5)
    """
    reciprocal = mean_reciprocal(ranks)
    low, high = bootstrap_interval(reciprocal)
    by_seed = (1.0 / ranks).mean(axis=1)
    return Quality(
        cases=ranks.shape[1],
        mrr=float(reciprocal.mean()),
        mrr_low=low,
        mrr_high=high,
        hit_1=float((ranks <= 1).mean()),
        hit_5=float((ranks <= 5).mean()),
        mrr_by_seed=tuple(by_seed.tolist()),
        seed_error=standard_error(by_seed),
    )


def standard_error(by_seed: Floats) -> float | None:
    """The standard error of the mean of what each seed gives; None of a single seed.

    >>> round(standard_error(np.array([0.50, 0.52, 0.54])), 4)
    0.0115
    """
    return float(stats.sem(by_seed)) if len(by_seed) > 1 else None


def mean_reciprocal(ranks: Integers) -> Floats:
    """The reciprocal rank of each case, averaged over the seeds."""
    return np.asarray((1.0 / ranks).mean(axis=0), dtype=np.float64)


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
    seed_error: float | None = field(default=None, metadata=OPTIONAL)
    """The standard error of `difference` over the seeds, which both systems have in common."""


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
        seed_error=standard_error((1.0 / ranks[a] - 1.0 / ranks[b]).mean(axis=1)),
    )


def system_pairs(systems: Iterable[str]) -> list[tuple[str, str]]:
    """The comparisons of the paper's tables: each ranker with ADJ and with its Baseline Ranker.

    A system with the user's earlier queries is also compared with the same system without them.

    >>> system_pairs(["adj", "baseline", "baseline+mine", "mine"])
    [('baseline', 'adj'), ('baseline+mine', 'adj'), ('baseline+mine', 'baseline')]
    """
    keys = list(systems)
    parsed = [RankedSystem.parse(key) for key in keys]
    rankers = [system for system in parsed if system.base]
    pairs = [(system.key, "adj") for system in rankers]
    for base in BASELINES:
        pairs += [(system.key, base) for system in rankers if system.base == base and system.model]
    with_more_features = ("baseline_semantic", "baseline_earlier")
    pairs += [(system.key, "baseline") for system in rankers if system.base in with_more_features]
    for form, compared_form in (("earlier", ""), ("earlier_sum", ""), ("earlier_lift", "lift")):
        pairs += [
            (system.with_form(form).key, system.with_form(compared_form).key)
            for system in parsed
            if system.model and not system.form
        ]
    return [pair for pair in pairs if pair[0] in keys]

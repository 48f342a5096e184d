"""Ranked systems, measures of rankings, differences between systems, and their significance.

One person's cases are alike, so what is called significant is tested by user: intervals resample
users, p-values are of the t-test over each user's sum of differences, corrected after Holm for all
comparisons of the same cases. The same by case, as in the paper, is measured in addition.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from nextquery.evaluation.steps import OPTIONAL
from nextquery.ranking.cases import CaseSet, Floats, Integers

BASELINES = {
    "baseline": "Baseline Ranker",
    "baseline_authors": "Authors' Baseline",
    "baseline_semantic": "Baseline with meaning",
    "baseline_earlier": "Baseline with earlier queries",
}
"""The rankers that need no model, with their labels."""

_MODEL_LABELS = {
    "adj": "ADJ",
    "popularity": "Popularity",
    "drop_words": "Drop words, then popular",
    "completions": "Completions of the last query",
}

_FORM_LABELS = {
    "": "",
    "sum": " (sum only)",
    "per_word": " per word",
    "lift": " lift",
    "share": " share",
    "useful": " weighted by usefulness",
    "earlier": " with earlier queries, if they help",
    "earlier_sum": " with earlier queries",
    "earlier_lift": " lift with earlier queries",
}


@dataclass(frozen=True)
class RankedSystem:
    """A system that ranks candidates.

    `base` is one of `BASELINES`, or empty for a model that ranks alone; `model` is empty for a
    ranker without a model. `form` is the form of the model's score; a ranker without one has the
    forms that were best on the validation cases.

    >>> system = RankedSystem("baseline", "mine", "sum")
    >>> system.key, system.label
    ('baseline+mine:sum', '+ MINE (sum only)')
    >>> RankedSystem.parse("baseline+mine:sum") == system
    True
    """

    base: str = ""
    model: str = ""
    form: str = ""

    @classmethod
    def parse(cls, key: str) -> "RankedSystem":
        """The system of a key; a name that no system here has is a model's (a TREC run)."""
        if key in BASELINES:
            return cls(base=key)
        base, plus, rest = key.partition("+")
        if not plus or base not in BASELINES:
            base, rest = "", key
        model, _, form = rest.partition(":")
        return cls(base, model, form)

    @property
    def key(self) -> str:
        """The name in `results.json`."""
        scored = f"{self.model}:{self.form}" if self.form else self.model
        return "+".join(part for part in (self.base, scored) if part)

    @property
    def label(self) -> str:
        """The name in the report."""
        if not self.model:
            return BASELINES[self.base]
        model = _MODEL_LABELS.get(self.model, self.model.upper())
        scored = model + _FORM_LABELS.get(self.form, f":{self.form}")
        if not self.base:
            return scored
        return f"+ {scored}" if self.base == "baseline" else f"{BASELINES[self.base]} + {scored}"

    def with_form(self, form: str) -> "RankedSystem":
        """The same system with another form of the score."""
        return replace(self, form=form)


ADJ = RankedSystem(model="adj")
BASELINE = RankedSystem("baseline")


def label(key: str) -> str:
    """The name of a system in the report, by its key in `results.json`."""
    return RankedSystem.parse(key).label


RESAMPLES = 2000
LEVEL = 0.01
"""A corrected p-value below this is called significant, as in the paper."""
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
    return _t_test_of_sums(first - second, user_numbers(users))


def _t_test_of_sums(differences: Floats, owners: Integers) -> float:
    sums = np.bincount(owners, weights=differences).astype(np.float64)
    return paired_t_test(sums, np.zeros(len(sums)))


def user_numbers(users: Sequence[str]) -> Integers:
    """The number of each case's user, from 0."""
    return np.unique(np.array(users), return_inverse=True)[1].astype(np.int64)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for being several (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def users_needed(
    users: int, standard_error: float, difference: float, level: float = LEVEL, power: float = 0.8
) -> int:
    """How many users it takes to show a difference of MRRs.

    `standard_error` is that of a difference measured over `users` people; it falls with the square
    root of their number. The result is the number at which the two-sided t-test by user has
    p < `level` with probability `power` if the true difference is `difference`. The t distribution
    is approximated by the normal one, which is too optimistic below about 30 users.

    >>> users_needed(144, 0.0072, 0.0234)  # +3.3% of .708
    160
    """
    needed = float(abs(difference) / (stats.norm.isf(level / 2.0) + stats.norm.isf(1.0 - power)))
    return math.ceil(users * (standard_error / needed) ** 2)


def bootstrap_interval(values: Floats) -> tuple[float, float]:
    """The interval that holds the mean of 95% of the resamples of `values`."""
    low, high = bootstrap_intervals(values[None], None)[0]
    return float(low), float(high)


def bootstrap_intervals(values: Floats, owners: Integers | None) -> Floats:
    """The 95% interval (rows, 2) of the mean of each row of `values` (rows, cases).

    Cases are drawn, or with `owners` the users that they belong to, with all their cases.
    """
    if not values.shape[1]:
        return np.full((len(values), 2), np.nan)
    sums, sizes = values.T, np.ones(values.shape[1])  # (groups, rows), (groups,)
    if owners is not None:
        sums = np.stack([np.bincount(owners, weights=row) for row in values], axis=1)
        sizes = np.bincount(owners).astype(np.float64)
    drawn = _times_drawn(len(sizes))
    table = np.column_stack([sums, sizes])
    blocks = (drawn[start : start + _BLOCK] for start in range(0, RESAMPLES, _BLOCK))
    totals = np.concatenate([block.astype(np.float64) @ table for block in blocks])
    ends = np.quantile(totals[:, :-1] / totals[:, -1:], [0.025, 0.975], axis=0)
    # A product of matrices may round otherwise with other threads.
    return np.asarray(np.round(ends.T, 12))


@lru_cache(maxsize=2)
def _times_drawn(groups: int) -> NDArray[np.uint8]:
    """How often each group is in each resample: the same for everything measured on the cases.

    A byte is enough: among more than 255 groups none is drawn 256 times, where one is expected.
    """
    generator = np.random.default_rng(0)
    rows = np.arange(_BLOCK)[:, None] * groups
    blocks = []
    for _ in range(RESAMPLES // _BLOCK):
        indices = generator.integers(0, groups, size=(_BLOCK, groups)) + rows
        counts = np.bincount(indices.ravel(), minlength=_BLOCK * groups)
        blocks.append(counts.astype(np.uint8).reshape(_BLOCK, groups))
    return np.concatenate(blocks)


@dataclass(frozen=True)
class Quality:
    """The results of one system, with 95% bootstrap intervals of its MRR."""

    cases: int
    mrr: float
    """The mean over cases of each case's reciprocal rank, which is the mean over the seeds."""
    mrr_low: float
    """Over cases."""
    mrr_high: float
    hit_1: float
    hit_5: float
    mrr_by_seed: tuple[float, ...]
    """The MRR of each seed's ranker; one number for a system that is not learnt."""
    _: KW_ONLY
    seed_error: float | None = field(default=None, metadata=OPTIONAL)
    """How much of the MRR is chance of the seeds: the standard error of the mean over them."""
    mrr_low_by_user: float
    """The interval over users."""
    mrr_high_by_user: float
    run_mrr: float | None = field(default=None, metadata=OPTIONAL)
    """The MRR of the run in `trec/`, which ranks by the mean of the seeds' scores; None where that
    is `mrr`."""

    @property
    def interval(self) -> tuple[float, float]:
        """The interval over users."""
        return self.mrr_low_by_user, self.mrr_high_by_user


@dataclass(frozen=True)
class Comparison:
    """System `a` compared with system `b` on the same cases.

    `relative` is MRR(a) / MRR(b) - 1, `difference` MRR(a) - MRR(b) with its 95% bootstrap interval
    over cases, `p` of the two-sided paired t-test over cases.
    """

    a: str
    b: str
    relative: float
    p: float
    difference: float
    difference_low: float
    difference_high: float
    _: KW_ONLY
    p_by_user: float
    """All cases of a user taken together."""
    seed_error: float | None = field(default=None, metadata=OPTIONAL)
    """The standard error of `difference` over the seeds, which both systems have in common."""
    difference_low_by_user: float
    difference_high_by_user: float
    p_holm: float
    """`p_by_user` corrected for all comparisons on these cases."""
    significant: bool
    """Whether `p_holm` is below .01."""


@dataclass(frozen=True)
class RankingResult:
    """Every system on some cases, or why there is no result."""

    cases: int
    too_few: str | None = field(default=None, metadata=OPTIONAL)
    systems: Mapping[str, Quality] = field(default_factory=dict, metadata=OPTIONAL)
    comparisons: tuple[Comparison, ...] = field(default=(), metadata=OPTIONAL)


FEWEST_CASES = 30
"""Below this many cases a mean is not reported."""

Pair = tuple[RankedSystem, RankedSystem]


@dataclass(frozen=True)
class SystemRanks:
    """The ranks of the true next queries by system: (seeds, cases) each."""

    cases: CaseSet
    ranks: Mapping[RankedSystem, Integers]

    def select(self, marks: NDArray[np.bool_]) -> "SystemRanks":
        """The same systems on the marked cases."""
        ranks = {system: rows[:, marks] for system, rows in self.ranks.items()}
        return SystemRanks(self.cases.select(marks), ranks)

    def summary(self, pairs: Iterable[Pair]) -> RankingResult:
        """The quality of every system and the comparisons asked for, or why there are none."""
        cases = len(self.cases)
        if cases < FEWEST_CASES:
            reason = f"{cases} cases; at least {FEWEST_CASES} are needed"
            return RankingResult(cases, too_few=reason)
        systems = qualities(self.ranks, self.cases.users)
        return RankingResult(
            cases,
            systems={system.key: quality for system, quality in systems.items()},
            comparisons=compare(self.ranks, list(pairs), self.cases.users),
        )


def rank_systems(cases: CaseSet, scores: Mapping[RankedSystem, Floats]) -> SystemRanks:
    """Rank by scores of shape (candidates,) or (seeds, candidates)."""
    ranks = {
        system: np.stack([cases.ranks(row) for row in np.atleast_2d(values)])
        for system, values in scores.items()
    }
    return SystemRanks(cases, ranks)


def mean_reciprocal(ranks: Integers) -> Floats:
    """The reciprocal rank of each case, averaged over the seeds."""
    return np.asarray((1.0 / ranks).mean(axis=0), dtype=np.float64)


def qualities(
    ranks: Mapping[RankedSystem, Integers], users: Sequence[str]
) -> dict[RankedSystem, Quality]:
    """The quality of ranks of shape (seeds, cases): means over seeds, then over cases.

    >>> [quality] = qualities({ADJ: np.array([[1, 2, 4, 1]])}, list("abcd")).values()
    >>> quality.mrr, quality.hit_1
    (0.6875, 0.5)
    """
    reciprocal = np.stack([mean_reciprocal(system_ranks) for system_ranks in ranks.values()])
    by_case = bootstrap_intervals(reciprocal, None)
    by_user = bootstrap_intervals(reciprocal, user_numbers(users))
    return {
        system: Quality(
            cases=system_ranks.shape[1],
            mrr=float(reciprocal[row].mean()),
            mrr_low=float(by_case[row, 0]),
            mrr_high=float(by_case[row, 1]),
            hit_1=float((system_ranks <= 1).mean()),
            hit_5=float((system_ranks <= 5).mean()),
            mrr_by_seed=tuple((1.0 / system_ranks).mean(axis=1).tolist()),
            seed_error=standard_error((1.0 / system_ranks).mean(axis=1)),
            mrr_low_by_user=float(by_user[row, 0]),
            mrr_high_by_user=float(by_user[row, 1]),
        )
        for row, (system, system_ranks) in enumerate(ranks.items())
    }


def standard_error(by_seed: Floats) -> float | None:
    """The standard error of the mean of what each seed gives; None of a single seed.

    >>> round(standard_error(np.array([0.50, 0.52, 0.54])), 4)
    0.0115
    """
    return float(stats.sem(by_seed)) if len(by_seed) > 1 else None


def compare(
    ranks: Mapping[RankedSystem, Integers], pairs: Sequence[Pair], users: Sequence[str]
) -> tuple[Comparison, ...]:
    """The differences between pairs of systems over the same cases.

    `users` says whose each case is. All pairs are one family for Holm's correction.

    >>> ranks = {ADJ: np.array([[2, 2, 1]]), BASELINE: np.array([[1, 2, 1]])}
    >>> [comparison] = compare(ranks, [(BASELINE, ADJ)], ["ann", "bob", "cy"])
    >>> round(comparison.relative, 3), comparison.significant
    (0.25, False)
    """
    if not pairs:
        return ()
    reciprocal = {system: mean_reciprocal(system_ranks) for system, system_ranks in ranks.items()}
    differences = np.stack([reciprocal[a] - reciprocal[b] for a, b in pairs])
    by_case = bootstrap_intervals(differences, None)
    owners = user_numbers(users)
    by_user = bootstrap_intervals(differences, owners)
    p_by_user = [_t_test_of_sums(row, owners) for row in differences]
    p_holm = holm(p_by_user)
    return tuple(
        Comparison(
            a=a.key,
            b=b.key,
            relative=float(reciprocal[a].mean() / reciprocal[b].mean() - 1.0),
            p=paired_t_test(reciprocal[a], reciprocal[b]),
            difference=float(differences[row].mean()),
            difference_low=float(by_case[row, 0]),
            difference_high=float(by_case[row, 1]),
            p_by_user=p_by_user[row],
            seed_error=standard_error((1.0 / ranks[a] - 1.0 / ranks[b]).mean(axis=1)),
            difference_low_by_user=float(by_user[row, 0]),
            difference_high_by_user=float(by_user[row, 1]),
            p_holm=p_holm[row],
            significant=p_holm[row] < LEVEL,
        )
        for row, (a, b) in enumerate(pairs)
    )


def compared_pairs(systems: Iterable[RankedSystem], reference: str = "") -> list[Pair]:
    """Every comparison that a table shows.

    Each ranker is compared with ADJ and with the ranker that has the same features without the
    model; rankers with more features with the Baseline Ranker; a system with the user's earlier
    queries with the same system without them. Every other model, and every run, is compared with
    the model `reference` (usually HRED), alone and as a feature of the Baseline Ranker.

    >>> mine, top = RankedSystem(model="mine"), RankedSystem("baseline", "mine")
    >>> [f"{a.key} {b.key}" for a, b in compared_pairs([ADJ, BASELINE, top, mine], "mine")]
    ['baseline adj', 'baseline+mine adj', 'baseline+mine baseline', 'adj mine']
    """
    present = list(systems)
    rankers = [system for system in present if system.base]
    alone = [system for system in present if not system.base]
    pairs = [(system, ADJ) for system in rankers]
    for base in map(RankedSystem, BASELINES):
        pairs += [(system, base) for system in rankers if system.base == base.base and system.model]
    with_more_features = ("baseline_semantic", "baseline_earlier")
    pairs += [(system, BASELINE) for system in rankers if system.base in with_more_features]
    for form, compared_form in (("earlier", ""), ("earlier_sum", ""), ("earlier_lift", "lift")):
        pairs += [
            (system.with_form(form), system.with_form(compared_form))
            for system in present
            if system.model and not system.form
        ]
    if reference:
        pairs += [
            (system, replace(system, model=reference))
            for system in (*alone, *rankers)
            if system.model not in ("", reference)
        ]
        # A ranker with one feature more has no chosen forms: compare it with the paper's one.
        single = [
            system
            for system in rankers
            if system.model not in ("", reference) and system.with_form("sum") not in present
        ]
        pairs += [(system, RankedSystem(system.base, reference, "sum")) for system in single]
    return [pair for pair in dict.fromkeys(pairs) if pair[0] in present and pair[1] in present]

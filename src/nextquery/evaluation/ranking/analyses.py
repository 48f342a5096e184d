"""What lies behind a scenario's results: session length, context length, noise, single features.

Knows ranks by system, parts and rankers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nextquery.evaluation.ranking.comparison import (
    FEWEST_CASES,
    RankingResult,
    SystemRanks,
    compare,
    rank_systems,
    system_pairs,
)
from nextquery.evaluation.ranking.metrics import Quality
from nextquery.evaluation.ranking.noise import Noise
from nextquery.evaluation.ranking.rankers import RankerGroup
from nextquery.evaluation.ranking.scenario_result import ContextLengthResult
from nextquery.ranking.candidates import BackgroundCounts
from nextquery.ranking.cases import CaseSet, Integers, reciprocal_ranks
from nextquery.ranking.features import BASELINE_FEATURES, FeatureTable
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS, CaseScorer, FoldScorer, Track

LENGTHS: Mapping[str, Callable[[int], bool]] = {
    "short": lambda queries: queries == 2,
    "medium": lambda queries: 3 <= queries <= 4,
    "long": lambda queries: queries >= 5,
}
"""The paper's classes of sessions by their number of queries."""

CONTEXT_LENGTHS = (1, 2, 3)


def by_session_length(found: SystemRanks) -> dict[str, RankingResult]:
    """Every system in short, medium and long sessions (Figure 5)."""
    return {
        name: found.select(of_length(found.cases, name)).summary(system_pairs(found.ranks))
        for name in LENGTHS
    }


def session_lengths(cases: CaseSet) -> dict[str, float | None]:
    """The share of short, medium and long sessions (Figure 4)."""
    return {name: _share(of_length(cases, name)) for name in LENGTHS}


def of_length(cases: CaseSet, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which cases come from short, medium or long sessions."""
    return np.array([LENGTHS[name](case.length) for case in cases.cases], dtype=np.bool_)


def noisy_contexts(cases: CaseSet, background: BackgroundCounts) -> float | None:
    """The share of contexts that hold one of the 100 most frequent queries."""
    noise = Noise(background, seed=0)
    return _share(np.array([noise.within(case.context) for case in cases.cases], dtype=np.bool_))


def single_features(part: RankedPart) -> dict[str, float]:
    """The MRR of each baseline feature alone, in the direction that suits it better.

    A high MRR would mean that a scenario gives its answers away.
    """
    columns = {name: part.features.column(name) for name in BASELINE_FEATURES}
    return {
        name: max(float(reciprocal_ranks(part.cases, sign * values).mean()) for sign in (1, -1))
        for name, values in columns.items()
    }


def by_context_length(
    part: RankedPart, name: str, scorer: CaseScorer | FoldScorer, group: RankerGroup, track: Track
) -> ContextLengthResult:
    """Long sessions, with the model seeing only the last 1, 2, 3 or all queries (Figure 6).

    The ranker is the one trained with whole contexts; its other features still see the whole
    context, so that only the model's view changes.
    """
    wanted = of_length(part.cases, "long")
    if wanted.sum() < FEWEST_CASES:
        return ContextLengthResult(int(wanted.sum()), f"at least {FEWEST_CASES} are needed")
    cases = part.cases.select(wanted)
    whole = FeatureTable(part.features.names, part.features.values[wanted[part.cases.owners]])
    found: dict[str, Mapping[str, Quality]] = {}
    ranks: dict[str, Integers] = {}
    for last in (*CONTEXT_LENGTHS, None):
        view = whole
        if last is not None:
            scores = scorer.score(cases, last=last, track=track)
            view = whole.with_columns({f"{name}:{form}": scores.form(form) for form in FORMS})
        ranked = {f"baseline+{name}": group.scores(view), name: view.column(f"{name}:sum")}
        label = "all" if last is None else str(last)
        systems = rank_systems(cases, ranked)
        found[label] = systems.summary([]).systems
        ranks[label] = systems.ranks[f"baseline+{name}"]
    users = [case.user for case in cases.cases]
    compared = tuple(compare(ranks, "all", str(last), users) for last in CONTEXT_LENGTHS)
    return ContextLengthResult(len(cases), queries=found, comparisons=compared)


def _share(marks: np.ndarray[Any, np.dtype[np.bool_]]) -> float | None:
    return float(marks.mean()) if len(marks) else None

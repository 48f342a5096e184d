"""The cases of a scenario with all their features, one part per split.

Knows the data folder, the scenario's rules and the systems; trains and measures nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nextquery.evaluation.progress import Steps
from nextquery.evaluation.ranking.scenarios import SCENARIOS, Rules
from nextquery.evaluation.systems import Systems
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.ranking.candidates import BackgroundCounts
from nextquery.ranking.cases import CaseSet, Floats
from nextquery.ranking.features import baseline_features
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS, Track, log_likelihoods
from nextquery.records import Session
from nextquery.suggesters.base import Scorer

LEARNING = ("training", "validation")


@dataclass(frozen=True)
class EvaluationData:
    """The sessions to evaluate on, and what the background says of their queries."""

    sessions: Mapping[str, list[Session]]
    background: BackgroundCounts


def read_evaluation_data(data: PreparedData) -> EvaluationData:
    """Read every split but the background, and the background's counts of their anchors."""
    splits = [split for split in data.splits if split != "background"]
    sessions = {split: _evaluable(data.sessions(split)) for split in splits}
    anchors = {item.queries[-2] for split in sessions.values() for item in split}
    frequent = {text for text, _ in BackgroundCounts.read(data, ()).most_frequent(100)}
    return EvaluationData(sessions, BackgroundCounts.read(data, anchors | frequent))


def _evaluable(sessions: Iterable[Session]) -> list[Session]:
    return [session for session in sessions if len(session.queries) > 1]


def build_cases(
    scenario: str, evaluation: EvaluationData, rules: Rules, learning_limit: int
) -> dict[str, CaseSet]:
    """The cases of every split; at most `learning_limit` of those that rankers learn from."""
    build = SCENARIOS[scenario].build
    found = {}
    for split, sessions in evaluation.sessions.items():
        cases = build(sessions, evaluation.background, rules)
        found[split] = _sample(cases, learning_limit, rules.seed) if split in LEARNING else cases
    return found


def _sample(cases: CaseSet, limit: int, seed: int) -> CaseSet:
    """At most `limit` cases, drawn without replacement."""
    places = np.random.default_rng(seed).permutation(len(cases))[:limit]
    wanted = np.zeros(len(cases), dtype=np.bool_)
    wanted[places] = True
    return cases.select(wanted)


def add_features(
    split: str, cases: CaseSet, background: BackgroundCounts, systems: Systems, steps: Steps
) -> RankedPart:
    """Baseline features and model scores; on test parts also every count model's score."""

    def track(name: str) -> Track:
        return steps.track(f"{name} scores the {split} cases")

    def likelihoods(name: str, scorer: Scorer) -> Floats:
        return log_likelihoods(scorer, cases, track=track(name))

    qvmm = likelihoods("qvmm", systems.count_models["qvmm"])
    features = baseline_features(cases, background, qvmm)
    columns: dict[str, Floats] = {}
    for name, scorer in systems.case_scorers.items():
        scores = scorer.score(cases, track=track(name))
        columns |= {f"{name}:{form}": scores.form(form) for form in FORMS}
    for name, model in systems.features.items():
        columns[f"{name}:sum"] = likelihoods(name, model)
    if split not in LEARNING:
        for name, model in systems.count_models.items():
            if name not in ("adj", "qvmm"):
                columns[f"{name}:alone"] = likelihoods(name, model)
    return RankedPart(cases, features.with_columns(columns))


def is_test(split: str) -> bool:
    """Whether results may be reported on the split."""
    return split in ("test", UNSEEN_USERS)

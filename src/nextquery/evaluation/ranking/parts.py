"""The cases of a scenario with all their features, one part per split.

Knows the data folder, the scenario's rules and the systems; trains and measures nothing. For new
visitors everything that is counted leaves the case's own user out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from nextquery.evaluation.progress import Steps
from nextquery.evaluation.ranking.scenarios import SCENARIOS, Rules
from nextquery.evaluation.systems import Systems
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.ranking.candidates import BackgroundCounts, Backgrounds
from nextquery.ranking.cases import CaseSet, Floats
from nextquery.ranking.features import authors_features, baseline_features
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS, Track, log_likelihoods
from nextquery.ranking.sequence_counts import (
    NO_TEXTS,
    log_probabilities_without_own,
    suffix_counts,
)
from nextquery.ranking.user_history import RarestTexts, UserHistory, read_histories, read_rarest
from nextquery.records import Session

LEARNING = ("training", "validation")


@dataclass(frozen=True)
class EvaluationData:
    """The sessions to evaluate on, and what the background says of their queries."""

    sessions: Mapping[str, list[Session]]
    backgrounds: Backgrounds
    new_visitors: bool = False
    """Whether the background leaves out what a case's own user did in it."""
    histories: Mapping[str, UserHistory] = field(default_factory=dict)
    """What is left out, by user."""
    rarest: RarestTexts = NO_TEXTS

    @property
    def background(self) -> BackgroundCounts:
        """The whole background."""
        return self.backgrounds.whole


def read_evaluation_data(data: PreparedData) -> EvaluationData:
    """Read every split but the background, and the background's counts of their anchors."""
    splits = [split for split in data.splits if split != "background"]
    sessions = {split: _evaluable(data.sessions(split)) for split in splits}
    anchors = {item.queries[-2] for split in sessions.values() for item in split}
    frequent = {text for text, _ in BackgroundCounts.read(data, ()).most_frequent(100)}
    return EvaluationData(sessions, Backgrounds(BackgroundCounts.read(data, anchors | frequent)))


def as_new_visitors(evaluation: EvaluationData, data: PreparedData) -> EvaluationData:
    """The same sessions as if every user came for the first time."""
    users = {session.user for split in evaluation.sessions.values() for session in split}
    histories, rarest = read_histories(data, users), read_rarest(data)
    backgrounds = Backgrounds(evaluation.background, histories, rarest)
    return replace(
        evaluation,
        backgrounds=backgrounds,
        new_visitors=True,
        histories=histories,
        rarest=rarest,
    )


def _evaluable(sessions: Iterable[Session]) -> list[Session]:
    return [session for session in sessions if len(session.queries) > 1]


def build_cases(
    scenario: str, evaluation: EvaluationData, rules: Rules, learning_limit: int | None
) -> dict[str, CaseSet]:
    """The cases of every split; at most `learning_limit` of those that rankers learn from."""
    build = SCENARIOS[scenario].build
    found = {}
    for split, sessions in evaluation.sessions.items():
        cases = build(sessions, evaluation.backgrounds, rules)
        found[split] = _sample(cases, learning_limit, rules.seed) if split in LEARNING else cases
    return found


def _sample(cases: CaseSet, limit: int | None, seed: int) -> CaseSet:
    """At most `limit` cases, drawn without replacement."""
    if limit is None or limit >= len(cases):
        return cases
    places = np.random.default_rng(seed).permutation(len(cases))[:limit]
    wanted = np.zeros(len(cases), dtype=np.bool_)
    wanted[places] = True
    return cases.select(wanted)


def add_features(
    split: str, cases: CaseSet, evaluation: EvaluationData, systems: Systems, steps: Steps
) -> RankedPart:
    """Baseline features and model scores; on test parts also the other count models' scores."""

    def track(name: str) -> Track:
        return steps.track(f"{name} scores the {split} cases")

    qvmm = _qvmm_scores(cases, evaluation, systems, track("qvmm"))
    features = baseline_features(cases, evaluation.backgrounds, qvmm)
    columns: dict[str, Floats] = {}
    if systems.unpruned is not None:
        raw = suffix_counts(systems.unpruned, cases, evaluation.histories, evaluation.rarest)
        columns |= authors_features(cases, raw)
    for name, scorer in systems.scorers.items():
        scores = scorer.score(cases, track=track(name))
        columns |= {f"{name}:{form}": scores.form(form) for form in FORMS}
    for name, model in systems.features.items():
        columns[f"{name}:sum"] = log_likelihoods(model, cases, track=track(name))
    if split not in LEARNING:
        columns |= {
            f"{name}:alone": log_likelihoods(model, cases, track=track(name))
            for name, model in systems.count_models.items()
            if name not in ("adj", "qvmm")
        }
    return RankedPart(cases, features.with_columns(columns))


def _qvmm_scores(
    cases: CaseSet, evaluation: EvaluationData, systems: Systems, track: Track
) -> Floats:
    if evaluation.new_visitors:
        return log_probabilities_without_own(
            systems.qvmm, cases, evaluation.histories, evaluation.rarest
        )
    return log_likelihoods(systems.qvmm, cases, track=track)


def is_test(split: str) -> bool:
    """Whether results may be reported on the split."""
    return split in ("test", UNSEEN_USERS)

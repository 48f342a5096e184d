"""How much log does it take: every system against the number of background sessions.

The background is cut to nested shares of its users. Count models and rankers are fitted again at
every size; a given model is not: it was trained elsewhere, on whatever it was trained on. With a
config, the first model under study is trained again at every size, too, with as many steps at most
as the whole background takes: fewer sessions are gone through more often, and early stopping ends
it.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path

import numpy as np

from nextquery.evaluation.comparison import Comparison, Quality, RankedSystem
from nextquery.evaluation.lists import run_generation, sample_contexts
from nextquery.evaluation.scenario_features import EvaluationData, read_evaluation_data
from nextquery.evaluation.scenario_run import RankingSettings, run_scenario
from nextquery.evaluation.steps import Steps
from nextquery.evaluation.systems import (
    COUNT_MODELS,
    KeepUser,
    Systems,
    SystemSource,
    open_systems,
    train_on_users,
    write_user_subset,
)
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import user_place
from nextquery.ranking.scoring import LOWEST
from nextquery.suggesters.base import Scorer

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""The shares of the background's users; a smaller one is part of every larger one."""

SCENARIO = "every_context"
"""The scenario whose cases are the same at every size."""

FITTED = {name: kind for name, kind in COUNT_MODELS.items() if name != "cacb"}
"""Which user clicked what is not in a data folder, so CACB cannot be fitted to some users."""


@dataclass(frozen=True)
class CurveSystem:
    """One system's own suggestions and likelihoods at one size."""

    coverage: float | None
    """The share of test contexts with any suggestion; None for a system that only scores."""
    hit_5: float | None
    perplexity: float | None
    """Per word of the true next query, over those without a word unknown at any size."""


@dataclass(frozen=True)
class CurvePoint:
    """Everything at one size of the background."""

    sessions: int
    users: int
    ranking: Mapping[str, Quality]
    """The systems of the scenario."""
    comparisons: tuple[Comparison, ...]
    alone: Mapping[str, CurveSystem]
    too_few: str | None = None

    def gain(self, model: str) -> Comparison | None:
        """What the model's log-likelihood adds to the Baseline Ranker."""
        pair = RankedSystem("baseline", model, "sum").key, "baseline"
        return next(
            (comparison for comparison in self.comparisons if (comparison.a, comparison.b) == pair),
            None,
        )


@dataclass(frozen=True)
class LearningCurve:
    """The sizes, smallest first, and which systems were fitted anew at each."""

    scenario: str
    refitted: tuple[str, ...]
    points: tuple[CurvePoint, ...]

    def begins_to_pay(self, model: str, level: float = 0.01) -> int | None:
        """The number of sessions from which on the model's gain is significant by user."""
        sessions = None
        for point in reversed(self.points):
            gain = point.gain(model)
            if gain is None or gain.relative <= 0 or _p(gain) >= level:
                break
            sessions = point.sessions
        return sessions


def _p(gain: Comparison) -> float:
    return gain.p if gain.p_by_user is None else gain.p_by_user


@dataclass(frozen=True)
class CurveSettings:
    """The settings of a learning curve."""

    ranking: RankingSettings
    contexts: int
    config: str | None
    """Trains the first model under study at every size; None: it is taken as it is."""


@dataclass(frozen=True)
class _Likelihoods:
    """Of each context's true next query: log-likelihood, words, and whether all are known."""

    values: np.ndarray
    words: np.ndarray
    known: np.ndarray


def learning_curve(
    data: PreparedData,
    folder: Path,
    models: Mapping[str, SystemSource],
    settings: CurveSettings,
    steps: Steps,
) -> LearningCurve:
    """Measure every size; models that are trained for it stay in `folder`."""
    points, likelihoods = [], []
    for share in SHARES:
        steps.begin(f"learning curve, {share:.0%} of the users")
        point, scored = _measure(data, folder, models, settings, share, steps)
        points.append(point)
        likelihoods.append(scored)
    trained = tuple(models)[:1] if settings.config else ()
    return LearningCurve(
        SCENARIO,
        (*FITTED, "baseline", "baseline_authors", *trained),
        tuple(
            replace(point, alone=_with_perplexity(point.alone, scored, likelihoods))
            for point, scored in zip(points, likelihoods, strict=True)
        ),
    )


def keep_share(share: float) -> KeepUser:
    """Which users stay when only a share of them does."""
    return lambda user: user_place(user, "learning curve") < share * 2**64


def _measure(
    data: PreparedData,
    folder: Path,
    models: Mapping[str, SystemSource],
    settings: CurveSettings,
    share: float,
    steps: Steps,
) -> tuple[CurvePoint, Mapping[str, _Likelihoods]]:
    name = f"{share:.4f}"
    part = write_user_subset(data, folder / f"{name}.part", keep_share(share), ("background",))
    try:
        taking_part = dict(models)
        if settings.config and models:
            taking_part[next(iter(models))] = train_on_users(
                data,
                folder / name,
                settings.config,
                keep_share(share),
                ("background",),
                f"{share} of the users",
                repeats=round(1 / share),
            )
        with open_systems(part, folder / "count_models", taking_part, {}, {}, FITTED) as systems:
            return _measure_systems(part, folder, systems, settings, steps)
    finally:
        shutil.rmtree(part.path)


def _measure_systems(
    part: PreparedData, folder: Path, systems: Systems, settings: CurveSettings, steps: Steps
) -> tuple[CurvePoint, Mapping[str, _Likelihoods]]:
    evaluation = read_evaluation_data(part)
    trec = folder / "trec"
    ranked = run_scenario(SCENARIO, evaluation, systems, settings.ranking, trec, steps)
    shutil.rmtree(trec, ignore_errors=True)
    users = part.session_rows("background").select("user").unique().collect()
    alone, likelihoods = _systems_alone(evaluation, systems, settings, steps)
    point = CurvePoint(
        sessions=int(part.artifact.manifest["counts"]["sessions"]["background"]),
        users=len(users),
        ranking=ranked.systems,
        comparisons=ranked.comparisons,
        alone=alone,
        too_few=ranked.too_few,
    )
    return point, likelihoods


def _systems_alone(
    evaluation: EvaluationData, systems: Systems, settings: CurveSettings, steps: Steps
) -> tuple[dict[str, CurveSystem], dict[str, _Likelihoods]]:
    cases = sample_contexts(
        evaluation.sessions["test"],
        evaluation.background,
        settings.contexts,
        settings.ranking.rules.seed,
    )
    lists = run_generation(systems.suggesters, cases, evaluation.background, steps).systems
    everyone: dict[str, Scorer] = {**systems.models, **systems.count_models}
    alone = {}
    for name in everyone:
        quality = lists[name].all if name in lists else None
        coverage, hit_5 = (quality.coverage, quality.hit_5) if quality else (None, None)
        alone[name] = CurveSystem(coverage, hit_5, None)
    pairs = [(case.context, case.next_query) for case in cases]
    return alone, {name: _likelihoods(scorer, pairs) for name, scorer in everyone.items()}


def _likelihoods(scorer: Scorer, pairs: Sequence[tuple[tuple[str, ...], str]]) -> _Likelihoods:
    scored = [scorer.score(context, [wanted])[0] for context, wanted in pairs]
    return _Likelihoods(
        np.array([max(query.log_likelihood, LOWEST) for query in scored]),
        np.array([query.words for query in scored]),
        np.array([not query.unknown for query in scored], dtype=np.bool_),
    )


def _with_perplexity(
    alone: Mapping[str, CurveSystem],
    scored: Mapping[str, _Likelihoods],
    sizes: Sequence[Mapping[str, _Likelihoods]],
) -> dict[str, CurveSystem]:
    known = np.logical_and.reduce(
        [likelihoods.known for size in sizes for likelihoods in size.values()]
    )
    words = {name: int(likelihoods.words[known].sum()) for name, likelihoods in scored.items()}
    return {
        name: replace(
            quality,
            perplexity=exp(-float(scored[name].values[known].sum()) / words[name])
            if words[name]
            else None,
        )
        for name, quality in alone.items()
    }

"""How much log is needed: every system against the number of background sessions.

The background is cut to nested shares of its users. Count models and rankers are fitted again at
every size; a given model is not: it was trained elsewhere, on whatever it was trained on. With a
config, the first model under study is trained again at every size, too, with as many steps at most
as the whole background takes: a smaller background is read in more epochs, until early stopping.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from math import exp
from pathlib import Path

import numpy as np
import polars as pl

from nextquery.evaluation.comparison import Comparison, Quality, RankedSystem
from nextquery.evaluation.lists import run_generation, sample_contexts
from nextquery.evaluation.scenario_features import read_evaluation_data
from nextquery.evaluation.scenario_run import begin_scenario, find_comparison
from nextquery.evaluation.settings import ExperimentSettings
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
from nextquery.records import ScoredQuery

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
        ranker = RankedSystem("baseline", model, "sum").key
        return find_comparison(self.comparisons, ranker, "baseline")


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
            if gain is None or gain.relative <= 0 or gain.p_by_user >= level:
                break
            sessions = point.sessions
        return sessions


def learning_curve(
    data: PreparedData,
    folder: Path,
    models: Mapping[str, SystemSource],
    settings: ExperimentSettings,
    steps: Steps,
) -> LearningCurve:
    """Measure every size; models that are trained for it stay in `folder`."""
    config = settings.learning_curve_config
    settings = replace(settings, runs={}, users_apart={}, exports=())
    points, scores_by_size = [], []
    for share in SHARES:
        steps.begin(f"learning curve, {share:.0%} of the users")
        name, keep = f"{share:.4f}", keep_share(share)
        part = write_user_subset(data, folder / f"{name}.part", keep, ("background",))
        try:
            sources = dict(models)
            if config and models:
                subset = f"{share} of the users"
                sources[next(iter(models))] = train_on_users(
                    data, folder / name, config, keep, ("background",), subset, round(1 / share)
                )
            with open_systems(part, folder / "count_models", sources, {}, {}, FITTED) as systems:
                point, scores = _measure(part, folder, systems, settings, steps)
        finally:
            shutil.rmtree(part.path)
        points.append(point)
        scores_by_size.append(scores)
    rows = [row for scores in scores_by_size for row in scores.values()]
    known = [
        not any(score.unknown for score in of_context) for of_context in zip(*rows, strict=True)
    ]
    return LearningCurve(
        SCENARIO,
        (*FITTED, "baseline", "baseline_authors", *(tuple(models)[:1] if config else ())),
        tuple(
            replace(
                point,
                alone={
                    name: replace(quality, perplexity=_perplexity(compress(scores[name], known)))
                    for name, quality in point.alone.items()
                },
            )
            for point, scores in zip(points, scores_by_size, strict=True)
        ),
    )


def keep_share(share: float) -> KeepUser:
    """Which users stay when only a share of them does."""
    return lambda user: user_place(user, "learning curve") < share * 2**64


def _measure(
    part: PreparedData,
    folder: Path,
    systems: Systems,
    settings: ExperimentSettings,
    steps: Steps,
) -> tuple[CurvePoint, dict[str, list[ScoredQuery]]]:
    """One size without perplexities, and each system's scores of the true next queries."""
    evaluation = read_evaluation_data(part)
    trec = folder / "trec"
    ranked = begin_scenario(
        SCENARIO, evaluation, systems, settings, trec, steps, context_lengths=False
    ).result()
    shutil.rmtree(trec, ignore_errors=True)
    cases = sample_contexts(
        evaluation.sessions["test"],
        evaluation.background,
        settings.generation_contexts,
        settings.seed,
    )
    lists = run_generation(systems.suggesters, cases, evaluation.background, steps).systems
    alone, scores = {}, {}
    for name, scorer in {**systems.models, **systems.count_models}.items():
        quality = lists[name].all if name in lists else None
        coverage, hit_5 = (quality.coverage, quality.hit_5) if quality else (None, None)
        alone[name] = CurveSystem(coverage, hit_5, None)
        scores[name] = [scorer.score(case.context, [case.next_query])[0] for case in cases]
    point = CurvePoint(
        sessions=int(part.artifact.manifest["counts"]["sessions"]["background"]),
        users=part.session_rows("background").select(pl.n_unique("user")).collect().item(),
        ranking=ranked.systems,
        comparisons=ranked.comparisons,
        alone=alone,
        too_few=ranked.too_few,
    )
    return point, scores


def _perplexity(scores: Iterable[ScoredQuery]) -> float | None:
    """Per word; None without any."""
    scored = list(scores)
    words = sum(score.words for score in scored)
    total = np.sum([max(score.log_likelihood, LOWEST) for score in scored])
    return exp(-float(total) / words) if words else None

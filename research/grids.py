"""Rankers by the grid that features are rounded to: how stable, how good.

    python -m research grids WORK

Every grid trains rankers on a synthetic log's features and again on the same features with noise of
1e-7. Written to docs/results/grids.json.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from nextquery.evaluation.scenario_features import build_cases, read_evaluation_data
from nextquery.evaluation.scenarios import Rules
from nextquery.inference import trees
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import CaseSet
from nextquery.ranking.features import FeatureTable, baseline_features
from nextquery.ranking.lambdamart import (
    SHAPES,
    RankedPart,
    RankerData,
    mean_reciprocal_rank,
    train_ranker,
)
from nextquery.ranking.scoring import CaseScorer, log_likelihoods
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import load
from nextquery.suggesters.qvmm import QVMM
from research.commands import make, save

GRIDS = {"1/256": 2.0**-8, "1/1024": 2.0**-10, "1/4096": 2.0**-12, "none": 2.0**-45}
"""Multiples of 2**-45 are finer than the noise."""
SEEDS = (1, 2, 3, 4, 5)
DRAWS = 3
NOISE = 1e-7
CASES = 1000
TEST_USERS = 1000
EPOCHS = "--set=train.epochs=1"


def study(work: Path) -> None:
    """Stability and MRR of each grid on `every_context` of a log of 20,000 sessions."""
    log, data, model = (work / name for name in ("log.tsv", "data", "hred"))
    make(log, ["synth", str(log), "--sessions", "20000", "--seed", "1"])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    make(model, ["train", str(data), "--out", str(model), "--config", "tiny", EPOCHS])
    parts = features(PreparedData(data), model)
    document = {
        "cases": [len(part.cases) for part in parts],
        "seeds": len(SEEDS),
        "draws": DRAWS,
        "grids": {name: measured(parts, grid) for name, grid in GRIDS.items()},
    }
    save("grids", document)


def features(data: PreparedData, model: Path) -> list[RankedPart]:
    """Training, validation and test cases with the Baseline Ranker's features and HRED's score."""
    evaluation = read_evaluation_data(data)
    cases = build_cases("every_context", evaluation, Rules(), CASES, TEST_USERS)
    qvmm, hred = fit_model(QVMM, data), CaseScorer(load(model))

    def with_features(part: CaseSet) -> RankedPart:
        table = baseline_features(part, evaluation.backgrounds, log_likelihoods(qvmm, part))
        return RankedPart(part, table.with_columns({"hred": hred.score(part).form("sum")}))

    return [with_features(cases[split]) for split in ("training", "validation", "test")]


def measured(parts: Sequence[RankedPart], grid: float) -> dict[str, Any]:
    """How many rankers have other trees or other scores under noise, and the MRRs."""
    with mock.patch.object(trees, "GRID", grid):
        clean = [_ranked(parts, seed) for seed in SEEDS]
        noisy = [
            (seed, _ranked([_with_noise(part, draw) for part in parts], SEEDS[seed]))
            for draw in range(DRAWS)
            for seed in range(len(SEEDS))
        ]
    moved = [abs(mrr - clean[seed][1]) for seed, (_, mrr) in noisy]
    return {
        "rankers": len(noisy),
        "same_trees": sum(model == clean[seed][0] for seed, (model, _) in noisy),
        "largest_move": round(max(moved), 5),
        "mrr": round(float(np.mean([mrr for _, mrr in clean])), 4),
        "mrr_by_seed": [round(mrr, 4) for _, mrr in clean],
    }


def _ranked(parts: Sequence[RankedPart], seed: int) -> tuple[str, float]:
    training, validation, test = parts
    shape = SHAPES[0]
    ranker = train_ranker(RankerData(training, validation, shape.smallest_leaf), shape, seed)
    scores = ranker.scores(test.features)
    return ranker.booster.model_to_string(), mean_reciprocal_rank(test, scores)


def _with_noise(part: RankedPart, draw: int) -> RankedPart:
    values = part.features.values
    noise = np.random.default_rng([draw, len(values)]).uniform(-1, 1, values.shape)
    return RankedPart(part.cases, FeatureTable(part.features.names, values * (1 + NOISE * noise)))

"""LambdaMART: gradient-boosted trees that order candidates."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import lightgbm
import numpy as np

from nextquery.inference.trees import Trees, on_grid, trees_from_lightgbm
from nextquery.ranking.cases import CaseSet, Floats, reciprocal_ranks
from nextquery.ranking.features import FeatureTable

TREES = 500
PATIENCE = 50
"""Boosting stops after this many trees without a better validation MRR."""


_BINNING = {"max_bin": 63, "data_random_seed": 1, "verbosity": -1}
"""How features become bins: the same for every ranker, whatever its seed."""


@dataclass(frozen=True)
class TreeShape:
    """What is tuned on the validation cases."""

    leaves: int
    rate: float
    smallest_leaf: int


SHAPES = (TreeShape(7, 0.1, 50), TreeShape(15, 0.1, 50), TreeShape(15, 0.05, 200))


@dataclass(frozen=True)
class RankedPart:
    """Cases with their features."""

    cases: CaseSet
    features: FeatureTable
    weights: Floats | None = None
    """How much each case counts; all alike if there are none."""

    def select(self, marks: np.ndarray) -> "RankedPart":
        """The marked cases with their features."""
        values = self.features.values[marks[self.cases.owners]]
        weights = None if self.weights is None else self.weights[marks]
        table = FeatureTable(self.features.names, values)
        return RankedPart(self.cases.select(marks), table, weights)

    def restricted(self, names: Sequence[str]) -> "RankedPart":
        """The same cases with only some of the features."""
        columns = [self.features.names.index(name) for name in names]
        table = FeatureTable(tuple(names), self.features.values[:, columns])
        return RankedPart(self.cases, table, self.weights)


@dataclass(frozen=True)
class Ranker:
    """Trained trees, and how well they order the validation cases."""

    booster: lightgbm.Booster
    names: tuple[str, ...]
    shape: TreeShape
    trees: int
    validation_mrr: float

    def scores(self, features: FeatureTable) -> Floats:
        """The score of every candidate."""
        columns = [features.names.index(name) for name in self.names]
        values = on_grid(features.values[:, columns])
        if not len(values):
            return np.zeros(0)
        predicted = self.booster.predict(
            values, num_iteration=self.trees, num_threads=os.cpu_count()
        )
        return np.asarray(predicted, dtype=np.float64)

    def to_trees(self) -> Trees:
        """The trees as arrays, which a model folder can store."""
        return trees_from_lightgbm(self.booster.dump_model(), self.trees)

    def importances(self) -> dict[str, float]:
        """The share of the total gain that each feature's splits brought."""
        gains = self.booster.feature_importance("gain", iteration=self.trees)
        total = max(float(gains.sum()), 1e-12)
        return {name: float(gain) / total for name, gain in zip(self.names, gains, strict=True)}


class RankerData:
    """The cases that rankers learn from and those that choose, made ready for many rankers.

    A feature that no leaf of `smallest_leaf` candidates could be split by is left out.
    """

    def __init__(self, training: RankedPart, validation: RankedPart, smallest_leaf: int) -> None:
        self.names = training.features.names
        self.training = _dataset(training, smallest_leaf, None)
        self.validation = _dataset(validation, smallest_leaf, self.training)
        self.chosen_by = validation
        self.validation.construct()


def train_ranker(data: RankerData, shape: TreeShape, seed: int) -> Ranker:
    """Grow up to 500 trees and keep the number that orders the validation cases best."""
    booster = lightgbm.Booster(_parameters(shape, seed), data.training)
    booster.add_valid(data.validation, "validation")

    def validation_mrr(scores: Floats, _: lightgbm.Dataset) -> tuple[str, float, bool]:
        return "mrr", mean_reciprocal_rank(data.chosen_by, scores), True

    curve: list[float] = []
    best = 0
    while len(curve) < TREES and len(curve) - 1 - best < PATIENCE:
        booster.update()
        [(_, _, reached, *_)] = booster.eval_valid(validation_mrr)
        curve.append(reached)
        best = best if reached <= curve[best] else len(curve) - 1
    # The best trees alone, without what they were grown from.
    best_trees = lightgbm.Booster(model_str=booster.model_to_string(num_iteration=best + 1))
    return Ranker(best_trees, data.names, shape, best + 1, curve[best])


def _parameters(shape: TreeShape, seed: int) -> dict[str, object]:
    return {
        "objective": "lambdarank",
        "metric": "None",
        "num_leaves": shape.leaves,
        "learning_rate": shape.rate,
        "min_data_in_leaf": shape.smallest_leaf,
        "feature_fraction": 0.8,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,  # rankers are trained side by side, which two threads in each are not
        **_BINNING,
    }


def _dataset(
    part: RankedPart, smallest_leaf: int, reference: lightgbm.Dataset | None
) -> lightgbm.Dataset:
    labels = np.zeros(part.cases.rows)
    labels[part.cases.targets] = 1.0
    return lightgbm.Dataset(
        on_grid(part.features.values),
        label=labels,
        group=part.cases.sizes,
        weight=None if part.weights is None else part.weights[part.cases.owners],
        feature_name=[f"f{number}" for number in range(len(part.features.names))],
        reference=reference,
        params=_BINNING | {"min_data_in_leaf": smallest_leaf},
    )


def mean_reciprocal_rank(part: RankedPart, scores: Floats) -> float:
    """The mean over all cases, each with its weight."""
    ranks = reciprocal_ranks(part.cases, np.asarray(scores, dtype=np.float64))
    return float(np.average(ranks, weights=part.weights))

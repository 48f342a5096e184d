"""Bagged LambdaMART: rankers taught by users drawn with replacement, asked together.

Where few people have many of the cases, one habit that is repeated sixty times decides what a
ranker learns, when its boosting stops and what it is worth. Here every user counts alike, each
ranker sees another draw of the users, and what is chosen is chosen by those who were not drawn, so
that every case both teaches and chooses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import lightgbm
import numpy as np

from nextquery.evaluation.rankers import FORM_SETS, feature_names
from nextquery.ranking.cases import CaseSet, Floats, Integers, reciprocal_ranks
from nextquery.ranking.features import FeatureTable
from nextquery.ranking.lambdamart import RankedPart, TreeShape

TREE_COUNTS = (5, 10, 20, 30, 50, 75, 100, 150, 200, 300)
"""How many trees are tried."""

SHAPES = (TreeShape(4, 0.1, 20), TreeShape(7, 0.05, 100), TreeShape(15, 0.1, 50))
"""Smaller trees than an experiment tries, too: a draw has two thirds of the users."""


@dataclass(frozen=True)
class Bag:
    """One system: a ranker for each draw, asked by their mean score."""

    names: tuple[str, ...]
    boosters: tuple[lightgbm.Booster, ...]
    shape: TreeShape
    trees: int
    undrawn_mrr: float
    """On users that a ranker has not seen, every user counting alike."""

    def scores(self, part: RankedPart) -> Floats:
        """The mean score of every candidate."""
        values = part.restricted(self.names).features.values
        found = np.stack([_predict(each, values, 0, self.trees) for each in self.boosters])
        return np.asarray(found.mean(axis=0), dtype=np.float64)


def train_bags(part: RankedPart, model: str, seeds: Sequence[int]) -> dict[str, Bag]:
    """The Baseline Ranker, and with a model's log-likelihood or its best forms, by name.

    The shape is the Baseline Ranker's for all; shape and forms are chosen by undrawn users.
    """

    def best(tried: Sequence[Bag]) -> Bag:
        return max(tried, key=lambda bag: bag.undrawn_mrr)

    baseline = feature_names(model, ())
    chosen = best([train_bag(part.restricted(baseline), shape, seeds) for shape in SHAPES])
    by_forms = {
        forms: train_bag(part.restricted(feature_names(model, forms)), chosen.shape, seeds)
        for forms in FORM_SETS
    }
    return {
        "baseline": chosen,
        f"baseline+{model}:sum": by_forms["sum",],
        f"baseline+{model}": best(list(by_forms.values())),
    }


def train_bag(part: RankedPart, shape: TreeShape, seeds: Sequence[int]) -> Bag:
    """A ranker for each seed, with the number of trees that orders undrawn users' cases best."""
    users, places = np.unique([case.user for case in part.cases.cases], return_inverse=True)
    drawn = [draw_users(len(users), seed)[places] for seed in seeds]
    alike = 1.0 / np.bincount(places)[places]
    boosters = tuple(
        _grow(part, times * alike, shape, seed) for times, seed in zip(drawn, seeds, strict=True)
    )
    reached = _undrawn_quality(part, boosters, drawn)
    best = int(np.argmax(reached))
    return Bag(part.features.names, boosters, shape, TREE_COUNTS[best], float(reached[best]))


def joined(first: RankedPart, second: RankedPart) -> RankedPart:
    """The cases of both parts, which have the same features."""
    cases = CaseSet(first.cases.cases + second.cases.cases)
    values = np.concatenate([first.features.values, second.features.values])
    return RankedPart(cases, FeatureTable(first.features.names, values))


def draw_users(users: int, seed: int) -> Integers:
    """How often each user is drawn when as many are drawn as there are.

    >>> int(draw_users(30, seed=1).sum())
    30
    """
    drawn = np.random.default_rng(seed).integers(users, size=users)
    return np.bincount(drawn, minlength=users).astype(np.int64)


def user_means(users: Sequence[str], values: Floats) -> Floats:
    """The mean of each user's values: who has many cases counts no more than others.

    >>> user_means(["ann", "ann", "bob"], np.array([1.0, 0.0, 1.0]))
    array([0.5, 1. ])
    """
    _, places = np.unique(np.array(users), return_inverse=True)
    means: Floats = np.bincount(places, weights=values) / np.bincount(places)
    return means


def _grow(part: RankedPart, weights: Floats, shape: TreeShape, seed: int) -> lightgbm.Booster:
    """Trees from the cases that have a weight."""
    chosen = weights > 0
    taught = part.select(chosen)
    labels = np.zeros(taught.cases.rows)
    labels[taught.cases.targets] = 1.0
    each = weights[chosen] / weights[chosen].mean()
    settings = {
        "objective": "lambdarank",
        "num_leaves": shape.leaves,
        "learning_rate": shape.rate,
        "min_data_in_leaf": shape.smallest_leaf,
        "feature_fraction": 0.8,
        "max_bin": 63,
        "data_random_seed": 1,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(
        taught.features.values,
        label=labels,
        group=taught.cases.sizes,
        weight=each[taught.cases.owners],
        params=settings,
    )
    return lightgbm.train(settings, data, TREE_COUNTS[-1])


def _undrawn_quality(
    part: RankedPart, boosters: Sequence[lightgbm.Booster], drawn: Sequence[Integers]
) -> Floats:
    """By number of trees: the MRR over users by the rankers that did not see them."""
    scores = np.zeros((len(TREE_COUNTS), part.cases.rows))
    asked = np.zeros(len(part.cases), dtype=np.bool_)
    for booster, times in zip(boosters, drawn, strict=True):
        unseen = times == 0
        rows = unseen[part.cases.owners]
        values = part.features.values[rows]
        if len(values):
            scores[:, rows] += _scores_by_trees(booster, values)
        asked |= unseen
    cases = part.cases.select(asked)
    users = [case.user for case in cases.cases]
    kept = scores[:, asked[part.cases.owners]]
    return np.array([user_means(users, reciprocal_ranks(cases, row)).mean() for row in kept])


def _scores_by_trees(booster: lightgbm.Booster, values: Floats) -> Floats:
    """The scores with each number of trees: (numbers, candidates)."""
    starts = (0, *TREE_COUNTS[:-1])
    grown = [
        _predict(booster, values, start, end - start)
        for start, end in zip(starts, TREE_COUNTS, strict=True)
    ]
    return np.cumsum(np.stack(grown), axis=0, dtype=np.float64)


def _predict(booster: lightgbm.Booster, values: Floats, first: int, trees: int) -> Floats:
    """What so many trees from the first on add up to."""
    found = booster.predict(values, start_iteration=first, num_iteration=trees, num_threads=1)
    return np.asarray(found, dtype=np.float64)

"""Rankers, and their trees as arrays."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import lightgbm
import numpy as np
import pytest

from nextquery.errors import ArtifactError
from nextquery.inference.trees import Trees, on_grid, trees_from_lightgbm
from nextquery.ranking.cases import CaseSet, RankingCase, reciprocal_ranks
from nextquery.ranking.features import FeatureTable
from nextquery.ranking.lambdamart import SHAPES, RankedPart, Ranker, RankerData, train_ranker


def part(cases: int, seed: int) -> RankedPart:
    """Ten candidates a case; the target has the highest signal, but for one case in five."""
    generator = np.random.default_rng(seed)
    texts = tuple(f"q{number}" for number in range(10))
    made = []
    signal = generator.normal(size=(cases, 10))
    for number in range(cases):
        target = int(generator.integers(10))
        made.append(RankingCase(number, ("a",), "a", texts, target, 2))
        if number % 5:
            signal[number, target] = signal[number].max() + 0.1
    noise = generator.normal(size=cases * 10)
    features = FeatureTable(("noise", "signal"), np.column_stack([noise, signal.ravel()]))
    return RankedPart(CaseSet(made), features)


def trained(training: RankedPart, validation: RankedPart) -> Ranker:
    shape = SHAPES[0]
    return train_ranker(RankerData(training, validation, shape.smallest_leaf), shape, seed=1)


def test_learns_which_feature_matters_and_repeats_itself() -> None:
    training, validation, test = part(400, 1), part(100, 2), part(200, 3)

    first = trained(training, validation)
    second = trained(training, validation)

    mrr = reciprocal_ranks(test.cases, first.scores(test.features)).mean()
    assert mrr > 0.75
    assert first.importances()["signal"] > 0.8
    assert sum(first.importances().values()) == pytest.approx(1.0)
    assert np.array_equal(first.scores(test.features), second.scores(test.features))


def test_rankers_trained_side_by_side_are_those_trained_alone() -> None:
    parts = part(400, 1), part(100, 2)
    shape = SHAPES[0]
    shared = RankerData(*parts, shape.smallest_leaf)
    wanted = [(replace(shape, leaves=leaves), seed) for leaves in (7, 15) for seed in (1, 2)]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda item: train_ranker(shared, *item), wanted))

    alone = [train_ranker(RankerData(*parts, shape.smallest_leaf), *item) for item in wanted]
    values = part(200, 3).features
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one.scores(values), other.scores(values))


def test_rankers_do_not_depend_on_rounding_errors() -> None:
    """Noise of 1e-7, as other kernels or another order of a sum bring, changes no tree."""
    parts = part(400, 1), part(100, 2), part(200, 3)
    ranker = trained(*parts[:2])
    expected = ranker.booster.model_to_string(), ranker.scores(parts[2].features).tolist()
    for seed in range(5):
        generator = np.random.default_rng(seed)
        noisy = [with_noise(item, generator) for item in parts]

        again = trained(*noisy[:2])

        result = again.booster.model_to_string(), again.scores(noisy[2].features).tolist()
        assert result == expected


def with_noise(part: RankedPart, generator: np.random.Generator) -> RankedPart:
    values = part.features.values
    noise = 1 + 1e-7 * generator.uniform(-1, 1, values.shape)
    return RankedPart(part.cases, FeatureTable(part.features.names, values * noise))


def test_the_validation_cases_decide_how_many_trees_are_kept() -> None:
    training, validation = part(400, 1), part(100, 2)
    ranker = trained(training, validation)

    ranks = reciprocal_ranks(validation.cases, ranker.scores(validation.features))
    assert ranker.validation_mrr == pytest.approx(ranks.mean())
    assert 1 <= ranker.trees <= 500


def test_without_signal_nothing_is_learnt() -> None:
    training, validation, test = (
        part(cases, seed).restricted(["noise"]) for cases, seed in ((400, 1), (100, 2), (400, 3))
    )
    ranker = trained(training, validation)

    mrr = reciprocal_ranks(test.cases, ranker.scores(test.features)).mean()
    assert mrr < 0.36  # chance is the mean of 1/1 ... 1/10: 0.293


def stump(**changes: object) -> Trees:
    """x <= .5 gives 1, else -1."""
    values = {
        "roots": np.array([0]), "features": np.array([0]), "thresholds": np.array([0.5]),
        "left": np.array([-1]), "right": np.array([-2]), "leaves": np.array([1.0, -1.0]),
    }  # fmt: skip
    return Trees(**{**values, **changes})  # type: ignore[arg-type]


def test_a_stump_by_hand() -> None:
    rows = np.array([[0.5], [0.5000001], [0.6], [-3.0]])
    assert stump().scores(rows).tolist() == [1.0, 1.0, -1.0, 1.0]
    stump().check(1)


def test_trees_score_as_lightgbm_does() -> None:
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(400, 4))
    target = rows[:, 0] * rows[:, 1] + (rows[:, 2] > 0)
    parameters = {"num_leaves": 9, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(parameters, lightgbm.Dataset(rows, target), 12)
    flat = trees_from_lightgbm(booster.dump_model(), 7)
    flat.check(4)
    assert len(flat.roots) == 7
    assert flat.scores(rows) == pytest.approx(booster.predict(on_grid(rows), num_iteration=7))
    many = draw.normal(size=(2500, 4))  # more than are scored together
    assert flat.scores(many) == pytest.approx(booster.predict(on_grid(many), num_iteration=7))
    assert flat.scores(rows[:0]).shape == (0,)


def test_a_node_with_two_parents_is_refused() -> None:
    """Without it, a few nodes could stand for endless leaves."""
    shared = stump(
        features=np.zeros(2, int), thresholds=np.zeros(2), left=np.array([1, -1]),
        right=np.array([1, -2]),
    )  # fmt: skip
    with pytest.raises(ArtifactError, match="two parents"):
        shared.check(1)


def test_a_tree_of_one_leaf() -> None:
    flat = trees_from_lightgbm({"tree_info": [{"tree_structure": {"leaf_value": 0.25}}]}, 1)
    flat.check(1)
    assert flat.scores(np.zeros((2, 1))).tolist() == [0.25, 0.25]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": np.array([5])}, "child index is out of range"),
        ({"left": np.array([-9])}, "child index is out of range"),
        ({"left": np.array([0])}, "before its parent"),
        ({"features": np.array([3])}, "feature index"),
        ({"thresholds": np.array([np.nan])}, "not finite"),
        ({"thresholds": np.array([0.5, 0.5])}, "child index is out of range"),
    ],
)
def test_hostile_trees_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        stump(**changes).check(1)

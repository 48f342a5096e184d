import lightgbm
import numpy as np
import pytest

from nextquery.errors import ArtifactError
from nextquery.ranking.trees import Trees, on_grid, trees_from_lightgbm


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

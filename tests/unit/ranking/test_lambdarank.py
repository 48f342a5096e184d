import lightgbm
import numpy as np
import pytest

from nextquery.ranking.cases import CaseSet, Floats, RankingCase
from nextquery.ranking.lambdarank import LambdaRank

PARAMETERS = {"num_leaves": 5, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}


def case_set(sizes: list[int], seed: int = 1) -> CaseSet:
    generator = np.random.default_rng(seed)
    return CaseSet(
        tuple(
            RankingCase(number, ("a",), "a", ("q",) * size, int(generator.integers(size)), 2)
            for number, size in enumerate(sizes)
        )
    )


def dataset(cases: CaseSet, weights: Floats | None) -> tuple[lightgbm.Dataset, Floats]:
    values = np.random.default_rng(2).normal(size=(cases.rows, 3))
    values[cases.targets, 0] += 1.0
    labels = np.zeros(cases.rows)
    labels[cases.targets] = 1.0
    flat = None if weights is None else weights[cases.owners]
    return lightgbm.Dataset(values, labels, group=cases.sizes, weight=flat), values


@pytest.mark.parametrize(
    "sizes", [[20] * 200, [2, 7, 20, 1, 13] * 40, [40, 35] * 60], ids=["even", "uneven", "many"]
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("native", [False, True])
def test_the_trees_are_those_of_lightgbms_own_objective(
    sizes: list[int], weighted: bool, native: bool
) -> None:
    cases = case_set(sizes)
    weights = np.random.default_rng(3).uniform(0.2, 3.0, len(cases)) if weighted else None
    gradients = LambdaRank(cases, weights, native=native)

    data, values = dataset(cases, weights)
    theirs = lightgbm.train({**PARAMETERS, "objective": "lambdarank"}, data, 30)
    data, _ = dataset(cases, weights)
    ours = lightgbm.train(
        {**PARAMETERS, "objective": lambda scores, _: gradients(scores)}, data, 30
    )

    expected = np.asarray(theirs.predict(values, raw_score=True))
    assert expected.std() > 0.1
    np.testing.assert_allclose(np.asarray(ours.predict(values)), expected, rtol=1e-6, atol=1e-9)


def test_one_pair_by_hand() -> None:
    """Two candidates with the scores 1 and 0, the second of which is the true one.

    The pair changes NDCG by 1 - 1/log2(3), over .01 and the distance of the scores; the chance of
    the wrong order is 1 / (1 + e^-1). What a case weighs is log2(1 + sum) / sum.
    """
    cases = CaseSet((RankingCase(1, ("a",), "a", ("x", "y"), 1, 2),))
    first, second = LambdaRank(cases)(np.array([1.0, 0.0]))

    size = (1 - 1 / np.log2(3)) / 1.01
    chance = 1 / (1 + np.exp(-1))
    norm = np.log2(1 + 2 * chance * size) / (2 * chance * size)
    assert first == pytest.approx([chance * size * norm, -chance * size * norm], rel=1e-4)
    assert second == pytest.approx([chance * (1 - chance) * size * norm] * 2, rel=1e-4)


def test_many_blocks_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = case_set([20] * 50)
    scores = np.random.default_rng(4).normal(size=cases.rows)
    whole = LambdaRank(cases, native=False)(scores)
    monkeypatch.setattr("nextquery.ranking.lambdarank._BLOCK", 7)
    for one, other in zip(LambdaRank(cases, native=False)(scores), whole, strict=True):
        assert np.array_equal(one, other)

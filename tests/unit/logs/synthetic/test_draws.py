"""Random integers: the same everywhere, and by their weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.logs.synthetic.queries import Draws, Wheel, zipf


@given(st.integers(0, 2**32), st.integers(1, 10**6))
def test_the_same_seed_gives_the_same_integers_below_the_limit(seed: int, limit: int) -> None:
    one, other = Draws(seed).below(limit, 20), Draws(seed).below(limit, 20)
    assert (one == other).all()
    assert (one >= 0).all()
    assert (one < limit).all()


def test_weights_decide_how_often_an_index_comes() -> None:
    found = np.bincount(Draws(1).weighted(np.array([0, 1, 3]), 40_000), minlength=3)
    assert found[0] == 0
    assert abs(found[2] / found[1] - 3) < 0.2


@pytest.mark.parametrize("weights", [[7], [3, 0, 2], zipf(5, 1), zipf(40, 2), zipf(30_000, 7)])
def test_a_number_falls_in_the_share_that_a_search_finds(weights: list[int]) -> None:
    wheel, bounds = Wheel(np.array(weights)), np.cumsum(weights)
    assert wheel.total == bounds[-1]
    numbers = np.unique(
        np.concatenate(
            [Draws(1).below(wheel.total, 20_000), bounds[:-1], bounds - 1, np.array([0])]
        )
    )
    assert (wheel.find(numbers) == np.searchsorted(bounds, numbers, side="right")).all()


def test_a_window_is_a_part_of_every_draw() -> None:
    whole, weights = Draws(5), np.array([5, 1, 9])
    whole.below(10, 77)
    part = whole.window(20, 50, 100)
    drawn = [whole.below(1000, 100), whole.weighted(weights, 100), whole.chance(30, 100)]
    at = np.array([3, 4, 29])
    assert (part.below(1000, 100) == drawn[0][20:50]).all()
    assert (part.weighted(weights, 100, at) == drawn[1][20:50][at]).all()
    assert (part.chance(30, 100) == drawn[2][20:50]).all()


def test_every_row_draws_by_its_own_weights() -> None:
    weights = np.array([[10, 0, 0], [0, 0, 10]])
    assert Draws(1).weighted_rows(weights, np.array([0, 1, 1, 0]), 4).tolist() == [0, 2, 2, 0]


def test_chance_and_permutation() -> None:
    draws = Draws(3)
    assert abs(draws.chance(25, 40_000).mean() - 0.25) < 0.01
    assert not draws.chance(0, 100).any()
    assert draws.chance(100, 100).all()
    assert sorted(draws.permutation(50)) == list(range(50))


def test_zipf_falls_with_the_rank() -> None:
    assert zipf(3, 1).tolist() == [10_000_000, 5_000_000, 3_333_333]
    assert zipf(2, 100)[1] / zipf(2, 100)[0] > 0.98

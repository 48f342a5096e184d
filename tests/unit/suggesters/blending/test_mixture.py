"""The mixture of probabilities, and how its weights are learnt."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nextquery.suggesters.blend import CASES_OF_ALL, Mixture, fit_mixture


def test_probabilities_are_weighed_by_who_speaks() -> None:
    mixture = Mixture(np.array([[1.0, 0.0], [0.25, 0.75]]))
    logs = np.log([[0.1, 0.2], [0.5, 0.1]])
    assert np.exp(mixture.log(0, logs)) == pytest.approx([0.1, 0.2])
    assert np.exp(mixture.log(1, logs)) == pytest.approx([0.4, 0.125])


def test_each_combination_has_a_row_of_its_own_and_no_session_the_last() -> None:
    mixture = Mixture.of(np.eye(4)[[0, 1, 2, 3, 0, 1, 2, 3]])
    combinations = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]
    assert {mixture.row(["paris"], each) for each in combinations} == set(range(8))
    assert {mixture.row([], each) for each in combinations} == {8}
    assert mixture.weights[8] == pytest.approx([0.25] * 4)


def test_two_cases_by_hand() -> None:
    """Each member is right once and never otherwise: half and half, wherever the cases stand."""
    right, wrong = 0.0, -np.inf
    found = fit_mixture(np.array([0, 1]), np.array([[right, wrong], [wrong, right]]))
    begun = CASES_OF_ALL / 2
    assert found.weights[0] == pytest.approx(
        [(1 + begun) / (1 + 2 * begun), begun / (1 + 2 * begun)]
    )
    assert found.weights[1] == pytest.approx(found.weights[0][::-1])


def test_the_known_weights_of_made_up_cases_are_found() -> None:
    """Member 0 is right in 30 % of the cases where the other speaks, in 90 % where it does not."""
    generator = np.random.default_rng(3)
    rows = generator.integers(0, 2, 20_000)
    first = generator.random(20_000) < np.where(rows == 1, 0.3, 0.9)
    likely, unlikely = np.log(0.9), np.log(0.001)
    logs = np.where(first[:, None], [likely, unlikely], [unlikely, likely])
    weights = fit_mixture(rows, logs).weights
    assert weights[:2, 0] == pytest.approx([0.9, 0.3], abs=0.02)


def test_a_row_without_cases_has_the_weights_of_all() -> None:
    logs = np.log(np.tile([[0.2, 0.1, 0.4], [0.4, 0.1, 0.2]], (50, 1)))
    weights = fit_mixture(np.zeros(100, np.int64), logs).weights
    assert weights[3] == pytest.approx(weights[0], abs=0.05)


@given(arrays(np.float64, (12, 3), elements=st.floats(-60, 0)), st.integers(0, 3))
def test_learnt_weights_are_weights_and_no_worse_than_equal_ones(
    logs: np.ndarray, row: int
) -> None:
    found = fit_mixture(np.full(12, row), logs)
    assert found.weights.shape == (5, 3)
    assert (found.weights >= 0).all()
    assert found.weights.sum(axis=1) == pytest.approx(1.0)
    equal = Mixture(np.full((4, 3), 1 / 3))
    assert found.log(row, logs.T).sum() >= equal.log(row, logs.T).sum() - 1e-6

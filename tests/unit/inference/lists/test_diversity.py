"""Maximal marginal relevance: likelihood against likeness."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nextquery.inference.lists import diversify
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig


def test_diversity_zero_is_the_given_order_and_one_avoids_likeness() -> None:
    values = np.array([-1.0, -1.1, -5.0])
    vectors = np.array([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0]])
    assert diversify(values, vectors, 3, 0.0) == [0, 1, 2]
    assert diversify(values, vectors, 2, 0.9) == [0, 2]


def test_marginal_relevance_by_hand() -> None:
    """Relevance 1, .8, 0; cosines to the first .6 and 0: at .5 these are .1 and 0."""
    values = np.array([0.0, -1.0, -5.0])
    vectors = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    assert diversify(values, vectors, 2, 0.5) == [0, 1]
    assert diversify(values, vectors, 2, 0.6) == [0, 2]  # .32 - .36 < 0


@given(
    arrays(np.float64, st.integers(1, 12), elements=st.floats(-50, 0)),
    st.integers(0, 15),
    st.floats(0, 1),
)
def test_every_entry_is_chosen_at_most_once(values: np.ndarray, count: int, weight: float) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(values), 4))
    chosen = diversify(-np.sort(-values), vectors, count, weight)
    assert len(chosen) == len(set(chosen)) == min(count, len(values))


def test_diversity_makes_lists_less_alike_and_less_likely(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2", "w3"])
    lists = [
        predictor.suggest_many(
            [state], 5, DecodeConfig(specificity=0.0, beam=40, max_words=4, diversity=weight)
        )[0]
        for weight in (0.0, 0.8)
    ]
    alike = []
    for suggestions in lists:
        vectors = predictor.encoder.query_vectors([each.text for each in suggestions])
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        alike.append((unit @ unit.T)[np.triu_indices(len(unit), 1)].mean())
    assert alike[1] < alike[0]
    assert lists[0][0] == lists[1][0]
    assert sum(each.score for each in lists[1]) < sum(each.score for each in lists[0])

"""Folding, diversity and sampling: which of the generated queries are shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nextquery.inference.diversity import diversify
from nextquery.inference.folding import fold, folding_key
from nextquery.inference.predictor import Predictor
from nextquery.inference.sampling import shape
from nextquery.inference.settings import DecodeConfig


@pytest.mark.parametrize(
    "copy",
    ["paris hotels", "hotel paris", "hotels in paris", "the hotel paris", "hotels paris"],
)
def test_near_copies_have_the_same_essence(copy: str) -> None:
    assert folding_key(copy) == folding_key("hotel paris")


@pytest.mark.parametrize("other", ["paris", "hotel rome", "cheap hotel paris", "hostel paris"])
def test_other_queries_do_not(other: str) -> None:
    assert folding_key(other) != folding_key("hotel paris")


@pytest.mark.parametrize(
    ("one", "many"), [("city", "cities"), ("church", "churches"), ("box", "boxes"), ("car", "cars")]
)
def test_plurals_fold(one: str, many: str) -> None:
    assert folding_key(one) == folding_key(many)


def test_words_that_only_look_plural_stay() -> None:
    assert folding_key("bus") == ("bus",)
    assert folding_key("glass") == ("glass",)


def test_stop_words_alone_are_kept() -> None:
    assert folding_key("the who") == ("the", "who")


def test_the_first_of_near_copies_is_kept() -> None:
    assert fold(["hotel paris", "rome", "paris hotels", "hotels in rome"]) == [0, 1, 3]


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
        predictor.suggest_many([state], 5, DecodeConfig(beam=40, max_words=4, diversity=weight))[0]
        for weight in (0.0, 0.8)
    ]
    alike = []
    for suggestions in lists:
        vectors = predictor.encoder.query_vectors([each.text for each in suggestions]).numpy()
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        alike.append((unit @ unit.T)[np.triu_indices(len(unit), 1)].mean())
    assert alike[1] < alike[0]
    assert lists[0][0] == lists[1][0]
    assert sum(each.score for each in lists[1]) < sum(each.score for each in lists[0])


def test_probabilities_are_shaped_by_hand() -> None:
    scores = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    assert shape(scores, DecodeConfig()) == pytest.approx([0.5, 0.3, 0.15, 0.05])
    assert shape(scores, DecodeConfig(top_k=2)) == pytest.approx([0.625, 0.375, 0, 0])
    assert shape(scores, DecodeConfig(top_p=0.7)) == pytest.approx([0.625, 0.375, 0, 0])
    cold = shape(scores, DecodeConfig(temperature=0.5))
    assert cold == pytest.approx(np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365)


def test_samples_follow_the_seed_and_the_likelihood(any_predictor: Predictor) -> None:
    state = any_predictor.encoder.encode(["w1 w2"])

    def draw(seed: int) -> list[str]:
        config = DecodeConfig(strategy="sample", beam=12, max_words=3, seed=seed)
        found = any_predictor.suggest_many([state], 12, config)[0]
        scored = any_predictor.score_many([state], [[each.text for each in found]])[0]
        for suggestion, score in zip(found, scored, strict=True):
            assert suggestion.score == pytest.approx(score.log_likelihood, abs=1e-4)
        return [each.text for each in found]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert 1 < len(draw(1)) <= 12


def test_sampling_one_word_is_greedy(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2"])
    config = DecodeConfig(strategy="sample", beam=3, top_k=1, max_words=4)
    assert len({each.text for each in predictor.suggest_many([state], 3, config)[0]}) <= 1

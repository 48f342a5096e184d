"""The output layer in NumPy: softmax, best words, and the words that can be copied."""

import numpy as np
import pytest

from nextquery.inference.output import BLOCK, Softmax
from nextquery.inference.weights import Floats
from nextquery.text.vocabulary import PADDING

WORDS, ROWS = 5_000, 7
WIDTH = WORDS + -WORDS % BLOCK


@pytest.fixture
def logits() -> Floats:
    values = 3 * np.random.default_rng(3).standard_normal((ROWS, WIDTH)).astype(np.float32)
    values[:, WORDS:] = -np.inf
    values[:, PADDING] = -np.inf
    return values


def reference(logits: Floats) -> np.ndarray:
    exact = logits.astype(np.float64)
    return np.asarray(exact - np.log(np.exp(exact).sum(axis=1, keepdims=True)))


@pytest.mark.parametrize("count", [1, 20, BLOCK * 3])
def test_the_best_words_are_those_of_a_flat_top_k(logits: Floats, count: int) -> None:
    before = -np.arange(4.0)
    total = (reference(logits)[2:6] + before[:, None]).ravel()
    places = np.argsort(-total)[:count]
    best = Softmax(logits).best(slice(2, 6), before, count)
    assert (best.rows * WIDTH + best.words).tolist() == places.tolist()
    np.testing.assert_allclose(best.totals, total[places], rtol=1e-5)
    assert best.rest == pytest.approx(total[places[-1]], abs=1e-5)


def test_listing_all_words_leaves_no_rest(logits: Floats) -> None:
    best = Softmax(logits).best(slice(0, ROWS), np.zeros(ROWS), ROWS * WIDTH * 2)
    assert best.rest == -np.inf
    assert len(best.words) == ROWS * (WORDS - 1)


def test_given_words_have_their_log_probability(logits: Floats) -> None:
    words = np.random.default_rng(1).integers(1, WORDS, (ROWS, 9))
    expected = np.take_along_axis(reference(logits), words, axis=1)
    np.testing.assert_allclose(Softmax(logits.copy()).of(words), expected, rtol=1e-4)
    some = Softmax(logits.copy()).of(words[2:4], slice(2, 4))
    np.testing.assert_allclose(some, expected[2:4], rtol=1e-4)

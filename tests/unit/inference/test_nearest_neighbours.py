"""The spaces of words and queries."""

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.inference import analysis
from nextquery.inference.predictor import Predictor


def test_the_nearest_words_are_those_of_highest_cosine(predictor: Predictor) -> None:
    model = predictor.model
    found, vectors = analysis.nearest_words(model, "W7", 5), model.word_vectors()
    matrix = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    cosines = matrix @ matrix[model.vocabulary.id("w7")]
    others = [n for n in (-cosines).argsort().tolist() if n > 2]
    expected = [model.vocabulary.words[n] for n in others if model.vocabulary.words[n] != "w7"]
    assert [each.text for each in found] == expected[:5]
    with pytest.raises(InputError, match="vocabulary"):
        analysis.nearest_words(model, "unheard", 5)


def test_the_nearest_queries(predictor: Predictor) -> None:
    known = ["w1 w2", "w1 w3", "w30 w31 w32"]
    found = analysis.nearest_queries(predictor.encoder, known, "W1 w2", 2)
    assert "w1 w2" not in [each.text for each in found]
    assert found[0].cosine >= found[1].cosine
    with pytest.raises(InputError, match="no word"):
        analysis.nearest_queries(predictor.encoder, known, "!?", 2)
    with pytest.raises(InputError, match="`words`"):
        analysis.nearest_queries(predictor.encoder, [], "w1", 2)


def test_query_vectors_keep_order_and_repeats(predictor: Predictor) -> None:
    table = analysis.query_vectors(predictor.encoder, ["w2 w3", "w1", "", "w2  W3"])
    assert table.shape == (4, predictor.model.query_size)
    np.testing.assert_array_equal(table[0], table[3])
    np.testing.assert_array_equal(table[2], 0)
    alone = analysis.query_vectors(predictor.encoder, ["w1"])
    np.testing.assert_allclose(table[1], alone[0], rtol=1e-5, atol=1e-6)

"""Update gates and their weights; nearest words and queries."""

from pathlib import Path

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.inference import analysis
from nextquery.inference.analysis import draw_gates, query_weights, update_gates_many
from nextquery.inference.context import ContextEncoder, ContextLimits
from nextquery.inference.predictor import Predictor
from nextquery.records import QueryWeight

from .conftest import hred_of

CONTEXT = ["w1 w2", "??", "w3", "zebra w4"]


def test_gates_rebuild_the_session_state(predictor: Predictor) -> None:
    """Eq. 3: the state moves from the old one towards the candidate by the gate."""
    model, encoder = hred_of(predictor), predictor.encoder
    gates = update_gates_many(model, encoder, [CONTEXT])[0]
    assert gates.shape == (3, model.network.config.session_size)
    assert ((gates > 0) & (gates < 1)).all()
    before, after = encoder.encode(["w1 w2"]), encoder.encode(["w1 w2", "w3"])
    vector = encoder.query_vectors(["w3"])
    _, gate = model.network.extend_session(before.memory.session_state[None], vector)
    np.testing.assert_allclose(gates[1], gate[0], rtol=1e-5, atol=1e-6)
    assert after.queries == ("w1 w2", "w3")


def test_queries_before_those_that_are_read_weigh_nothing(predictor: Predictor) -> None:
    limited = ContextEncoder(predictor.model, ContextLimits(queries=2, words=30))
    gates = update_gates_many(hred_of(predictor), limited, [["w9", *CONTEXT]])[0]
    last = update_gates_many(hred_of(predictor), limited, [CONTEXT[2:]])[0]
    assert not gates[:2].any()
    np.testing.assert_allclose(gates[2:], last, rtol=1e-5, atol=1e-6)


def test_weights_by_hand() -> None:
    gates = np.array([[0.5, 1.0], [0.2, 0.0], [0.5, 0.5]], dtype=np.float32)
    weights = query_weights(["a", "!", "b", "c"], gates)
    assert [each.query for each in weights] == ["a", "!", "b", "c"]
    assert [each.update for each in weights] == pytest.approx([0.75, 0.0, 0.1, 0.5])
    # a: .5 * .8 * .5 and 1 * 1 * .5; b: .2 * .5 and 0; c: .5 and .5
    assert [each.share for each in weights] == pytest.approx([0.35, 0.0, 0.05, 0.5])


def test_an_empty_session_weighs_nothing(predictor: Predictor) -> None:
    gates = update_gates_many(hred_of(predictor), predictor.encoder, [[]])[0]
    assert query_weights([], gates) == []


def test_the_figure_is_drawn(predictor: Predictor, tmp_path: Path) -> None:
    gates = update_gates_many(hred_of(predictor), predictor.encoder, [CONTEXT])[0]
    draw_gates(query_weights(CONTEXT, gates), gates, tmp_path / "gates.png")
    assert (tmp_path / "gates.png").read_bytes().startswith(b"\x89PNG")


def test_a_query_with_dollar_signs_is_drawn_as_it_was_typed(tmp_path: Path) -> None:
    weights = [QueryWeight("price $\\frac$", 0.5, 1.0)]
    draw_gates(weights, np.array([[0.5]], dtype=np.float32), tmp_path / "gates.png")
    assert (tmp_path / "gates.png").stat().st_size > 0


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

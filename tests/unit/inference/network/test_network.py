"""HRED's steps in NumPy against the model's own, for every form of the model."""

from typing import Any

import numpy as np
import pytest
import torch

from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import sigmoid

from ..conftest import ModelMaker, network_of

SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "unfactored": {"factored": False},
    "authors": {"zero_step": True, "start_query": True, "gru_biases": True, "output_bias": True},
    "tied": {"tied": True},
    "output": {"decoder_context": "output"},
    "all": {"decoder_context": "all", "gru_biases": True, "zero_step": True},
    "copying": {"copy": True},
    "n-grams": {"character_ngrams": 50},
    "tied n-grams": {"character_ngrams": 50, "tied": True},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
@torch.inference_mode()
def test_every_step_is_that_of_the_model(make_model: ModelMaker, settings: dict[str, Any]) -> None:
    model = make_model(**settings)
    network = network_of(model)

    def same(found: np.ndarray | None, expected: torch.Tensor | None) -> None:
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)

    same(network.output_matrix, model.output_matrix)
    same(network.start_session(3), model.start_session(3))
    state = torch.randn((7, model.config.session_size))
    vectors = torch.randn((7, model.config.query_size))
    for found, expected in zip(
        network.extend_session(state.numpy(), vectors.numpy()),
        model.extend_session(state, vectors),
        strict=True,
    ):
        same(found, expected)
    session, inputs = model.session_inputs(state), network.session_inputs(state.numpy())
    same(inputs.step, session.step)
    same(inputs.output, session.output)
    same(network.start_decoder(state.numpy(), inputs), model.start_decoder(state, session))
    words = torch.arange(3, 10)
    after = network.advance_decoder(vectors.numpy(), words.numpy(), inputs)
    same(after, model.advance_decoder(vectors, words, session))
    previous = network.previous_words(words.numpy())
    same(previous, model.previous_words(words))
    for given, last in ((previous, words), (None, None)):
        omega = network.output_vector(vectors.numpy(), given, inputs)
        same(omega, model.output_vector(vectors, last, session))


@pytest.mark.parametrize("factored", [True, False])
@torch.inference_mode()
def test_queries_are_encoded_as_the_model_does(make_model: ModelMaker, factored: bool) -> None:
    model = make_model(factored=factored)
    queries = [[4, 5, 1], [1], [7, 8, 9, 4, 1], [3, 1]]
    words = torch.zeros((4, 5), dtype=torch.long)
    for row, query in enumerate(queries):
        words[row, : len(query)] = torch.tensor(query)
    vectors, states = model.encode_queries(words, torch.tensor([len(query) for query in queries]))
    found = network_of(model).encode_queries(queries)
    for row, query in enumerate(queries):
        np.testing.assert_allclose(found[row], states[row, : len(query)], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[row][-1], vectors[row], rtol=1e-4, atol=1e-5)


def test_no_queries_have_no_states(hred: HREDModel) -> None:
    assert hred.network.encode_queries([]) == []


def test_a_sigmoid_never_overflows() -> None:
    values = np.array([-1e4, -1.0, 0.0, 1e4], dtype=np.float32)
    np.testing.assert_allclose(sigmoid(values), [0.0, 0.2689414, 0.5, 1.0], atol=1e-6)

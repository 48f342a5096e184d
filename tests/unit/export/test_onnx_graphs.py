"""The graphs, run by onnxruntime, against the model for every form of it."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from nextquery.errors import InputError
from nextquery.export import onnx_graphs
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.weights import weight_shapes
from nextquery.model.settings import ModelConfig
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, Vocabulary

WORDS = 40
AUTHORS = {"zero_step": True, "start_query": True, "gru_biases": True, "output_bias": True}
FORMS: dict[str, dict[str, Any]] = {
    f"{context}-{name}": {"decoder_context": context, **settings}
    for context in ("first", "output", "all")
    for name, settings in {
        "paper": {},
        "copying": {"copy": True},
        "unfactored": {"factored": False, **AUTHORS},
        "tied-copying": {"tied": True, "copy": True, "zero_step": True},
    }.items()
}


def random_network(seed: int = 0, **settings: Any) -> HREDNetwork:
    generator = np.random.default_rng(seed)
    config = ModelConfig(
        **{"vocabulary_size": WORDS, "embedding_size": 6, "query_size": 8, "session_size": 10}
        | settings
    )
    vocabulary = Vocabulary(f"w{number}" for number in range(WORDS))
    shapes = weight_shapes(config, len(vocabulary))
    weights = {
        name: generator.normal(scale=0.7, size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    return HREDNetwork(config, vocabulary, weights)


def opened(model: onnx.ModelProto) -> Any:
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", FORMS.values(), ids=list(FORMS))
def test_queries_and_sessions_are_encoded_as_by_the_model(settings: dict[str, Any]) -> None:
    network = random_network(**settings)
    queries = [[4, 5, END_OF_QUERY], [END_OF_QUERY], [7, 8, 9, 2, END_OF_QUERY]]
    words = np.zeros((3, 5), dtype=np.int64)
    for row, query in enumerate(queries):
        words[row, : len(query)] = query
    given = {"words": words, "lengths": np.array([3, 1, 5])}
    vectors, *states = opened(onnx_graphs.query_encoder(network)).run(None, given)
    expected = network.encode_queries(queries)
    close(vectors, [each[-1] for each in expected])
    assert bool(states) == network.config.copying
    if states:
        close(states[0][2], expected[2])
    state = np.random.default_rng(1).normal(size=(3, 10)).astype(np.float32)
    asked = {"session_state": state, "query_vector": vectors}
    after = opened(onnx_graphs.session_encoder(network)).run(None, asked)[0]
    close(after, network.extend_session(state, vectors)[0])


@pytest.mark.parametrize("settings", FORMS.values(), ids=list(FORMS))
def test_a_step_is_that_of_the_model(settings: dict[str, Any]) -> None:
    network = random_network(**settings)
    rows = np.random.default_rng(2).normal(size=(2, 10)).astype(np.float32)
    before = np.random.default_rng(3).normal(size=(2, 8)).astype(np.float32)
    word = np.array([PADDING, 5])
    given = {"session_state": rows, "decoder_state": before, "word": word}
    if network.config.copying:  # an empty session: the softmax alone
        given |= {"source_states": np.ones((1, 8), dtype=np.float32), "source_ages": np.array([0])}
    decoder = opened(onnx_graphs.decoder(network))
    names = [each.name for each in decoder.get_outputs()]
    found = dict(zip(names, decoder.run(None, given), strict=True))
    session = network.session_inputs(rows)
    state = network.advance_decoder(before, word, session)
    state[0] = network.start_decoder(rows, session)[0]
    close(found["next_decoder_state"], state)
    previous = network.previous_words(word)
    previous[0] = 0
    omega = network.output_vector(state, previous, session)
    logits = omega @ network.output_matrix.T + network.weights.get("output_bias", np.float32(0))
    logits[:, PADDING] = -np.inf
    expected = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    close(found["log_probabilities"][:, 1:], expected[:, 1:])
    assert (found["log_probabilities"][:, PADDING] == -np.inf).all()
    if network.config.copying:
        assert (found["copy_log_probabilities"] == -np.inf).all()


def test_with_copying_all_probabilities_sum_to_one() -> None:
    network = random_network(copy=True)
    decoder = opened(onnx_graphs.decoder(network))
    given = {
        "session_state": np.ones((2, 10), dtype=np.float32),
        "decoder_state": np.ones((2, 8), dtype=np.float32),
        "word": np.array([PADDING, 7]),
        "source_states": np.random.default_rng(4).normal(size=(5, 8)).astype(np.float32),
        "source_ages": np.array([30, 2, 2, 1, 1]),
    }
    names = ["log_probabilities", "copy_log_probabilities"]
    generated, copied = decoder.run(names, given)
    total = np.exp(generated).sum(axis=1) + np.exp(copied).sum(axis=1)
    close(total, [1.0, 1.0])
    assert (np.exp(copied) > 0).all()


def test_what_no_file_of_onnx_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graphs, "_LARGEST", 1000)
    with pytest.raises(InputError, match=r"decoder\.onnx would have .* GB"):
        onnx_graphs.decoder(random_network())

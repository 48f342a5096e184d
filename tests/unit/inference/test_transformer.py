"""The Transformer's key-value cache in NumPy against the PyTorch network."""

from typing import Any

import numpy as np
import pytest
import torch

from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextBatch, ContextEncoder
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.transformer import TransformerModel, weight_shapes
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import TransformerConfig
from nextquery.model.transformer import Transformer
from nextquery.text.batching import build_batch
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary

CONTEXTS = [[], ["w1 w2"], ["w1 w2", "w3 zzz w4", "w5"], ["zzz"], ["w7"] * 30]
CANDIDATES = ["w3", "w1 w2", "w4 w5 w6", "zzz w3"]


def network(*, copy: bool, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig.model_validate(
        {"vocabulary_size": 40, "embedding_size": 12, "model_size": 16, "heads": 2, "copy": copy}
    )
    model = Transformer(config, Vocabulary(f"w{number}" for number in range(40))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
        model.word_vectors.weight[END_OF_QUERY] += 0.5 * torch.randn(12)
    return model


def model_of(torch_model: Transformer, *, compiled: bool = True) -> TransformerModel:
    return TransformerModel(
        torch_model.config, torch_model.vocabulary, torch_model.arrays(), compiled=compiled
    )


def reference(torch_model: Transformer, session: list[str]) -> float:
    """The log-likelihood of the last query of a session, by the training code."""
    vocabulary = torch_model.vocabulary
    outside: dict[str, int] = {}
    queries = []
    for query in session:
        words = [
            vocabulary.id(word)
            if word in vocabulary
            else outside.setdefault(word, len(vocabulary) + len(outside))
            for word in query.split()
        ]
        queries.append([*words, END_OF_QUERY])
    encoded = EncodedSessions(
        words=np.array([word for query in queries for word in query], dtype=np.int32),
        query_starts=np.cumsum([0, *map(len, queries)]),
        session_starts=np.array([0]),
        session_ends=np.array([len(queries)]),
        ids=np.array([0]),
        vocabulary_size=len(vocabulary),
    )
    batch = build_batch(encoded, np.array([0]), last_only=True)
    with torch.no_grad():
        return float(SessionLikelihood(torch_model, chunk=8).eval()(batch)[0])


@pytest.mark.parametrize("copy", [False, True])
def test_scores_are_those_of_pytorch(copy: bool, compiled: bool) -> None:
    torch_model = network(copy=copy)
    predictor = Predictor(model_of(torch_model, compiled=compiled), Guard())
    states = predictor.encoder.encode_many(CONTEXTS)
    scored = predictor.score_many(states, [CANDIDATES] * len(CONTEXTS))
    for context, results in zip(CONTEXTS, scored, strict=True):
        read = context[-predictor.encoder.limits.queries :]
        for text, result in zip(CANDIDATES, results, strict=True):
            expected = reference(torch_model, [*read, text])
            assert result.log_likelihood == pytest.approx(expected, abs=1e-4), (context, text)


@pytest.mark.parametrize("copy", [False, True])
def test_a_session_can_be_read_query_by_query(copy: bool) -> None:
    encoder = ContextEncoder(model_of(network(copy=copy)))
    whole = encoder.encode(["w1 w2", "w3 zzz w4", "w5"])
    state = encoder.start()
    for query in ["w1 w2", "w3 zzz w4", "w5"]:
        state = encoder.extend(state, query)
    np.testing.assert_allclose(state.memory.cache, whole.memory.cache, atol=1e-5)
    np.testing.assert_allclose(state.memory.last, whole.memory.last, atol=1e-5)
    for one, other in zip(state.memory.word_states, whole.memory.word_states, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_lists_together_are_the_lists_alone() -> None:
    predictor = Predictor(model_of(network(copy=True)), Guard())
    states = predictor.encoder.encode_many(CONTEXTS)
    together = predictor.suggest_many(states, 5, DecodeConfig())
    for state, suggestions in zip(states, together, strict=True):
        [alone] = predictor.suggest_many([state], 5, DecodeConfig())
        assert [item.text for item in suggestions] == [item.text for item in alone]


def test_a_beam_of_one_is_greedy() -> None:
    predictor = Predictor(model_of(network(copy=False)), Guard())
    decoder = predictor.decoder("exact")
    state = predictor.encoder.encode(["w1 w2"])
    config = DecodeConfig.model_validate({"beam": 1, "known": "free", "specificity": 0.0})
    [[first]] = predictor.suggest_many([state], 1, config)
    rows: Any = decoder.start(ContextBatch(predictor.model.vocabulary, [state]))
    words: list[int] = []
    while len(words) < config.max_words:
        prediction = decoder.predict(rows)
        best = prediction.best(slice(None), np.zeros(1), 1)
        word = int(best.words[0])
        if word == END_OF_QUERY:
            break
        words.append(word)
        rows = decoder.advance(rows, np.zeros(1, dtype=np.int64), np.array([word]))
    assert first.text == " ".join(predictor.model.vocabulary.words[word] for word in words)


def test_attention_to_queries_adds_up_to_one() -> None:
    shares = model_of(network(copy=False)).attention([["w1 w2", "w3", "w4"], [], ["w1"]])
    assert [len(share) for share in shares] == [3, 0, 1]
    assert float(shares[0].sum()) == pytest.approx(1.0, abs=1e-5)
    assert (shares[0] > 0).all()
    assert shares[2].tolist() == [1.0]


def test_the_shapes_are_those_of_the_network() -> None:
    model = network(copy=True)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert weight_shapes(model.config, len(model.vocabulary)) == shapes

"""The Transformer's key-value cache in NumPy against the PyTorch network."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextBatch, ContextEncoder
from nextquery.inference.native import Library
from nextquery.inference.native_decoder import CompiledDecoder
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.transformer import TransformerModel, weight_shapes
from nextquery.inference.transformer_blocks import ArrayBlocks, NativeBlocks
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import TransformerConfig
from nextquery.model.transformer import Transformer
from nextquery.text.batching import build_batch
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary

CONTEXTS = [[], ["w1 w2"], ["w1 w2", "w3 zzz w4", "w5"], ["zzz"], ["w7"] * 30]
CANDIDATES = ["w3", "w1 w2", "w4 w5 w6", "zzz w3"]


def network(*, copy: bool, words: int = 40, model_size: int = 16) -> Transformer:
    torch.manual_seed(0)
    sizes = {"embedding_size": 12, "model_size": model_size, "heads": 2}
    config = TransformerConfig.model_validate({"vocabulary_size": words, **sizes, "copy": copy})
    model = Transformer(config, Vocabulary(f"w{number}" for number in range(words))).eval()
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


KERNELS = [*itertools.product([None, "avx2", "baseline"], [16, 44, 96])]
"""Instruction sets and state sizes: heads of less than a vector, of odd halves, of several."""


@pytest.mark.parametrize(("instructions", "size"), KERNELS, indirect=["instructions"])
def test_the_compiled_blocks_are_those_of_numpy(instructions: Library, size: int) -> None:
    torch_model = network(copy=False, model_size=size)
    weights = torch_model.arrays()
    arrays = ArrayBlocks(torch_model.config, weights)
    native = NativeBlocks(instructions, torch_model.config, weights)
    caches = [np.zeros((0, 2, 2, size), dtype=np.float32)] * 3
    words = [np.arange(3, 9), np.arange(5, 6), np.arange(2, 30)]
    read = native.read(caches, words)
    for one, other in zip(read, arrays.read(caches, words), strict=True):
        np.testing.assert_allclose(one.states, other.states, atol=2e-5)
        np.testing.assert_allclose(one.added, other.added, atol=2e-5)
    contexts = np.array([0, 0, 2, 2, 2])
    new = np.random.default_rng(0).normal(size=(5, 3, 2, 2, size)).astype(np.float32)
    grown = new.copy()
    past = [part.added for part in read]
    states = native.extend(np.arange(5), past, contexts, grown)
    np.testing.assert_allclose(arrays.extend(np.arange(5), past, contexts, new), states, atol=2e-5)
    np.testing.assert_allclose(new, grown, atol=2e-5)


@pytest.mark.parametrize("copy", [False, True])
def test_compiled_lists_are_those_of_numpy(copy: bool, library: Library) -> None:
    torch_model = network(copy=copy, words=90)
    lists = []
    for compiled in (True, False):
        predictor = Predictor(model_of(torch_model, compiled=compiled), Guard())
        states = predictor.encoder.encode_many(CONTEXTS)
        suggested = predictor.suggest_many(states, 8, DecodeConfig(max_words=4))
        suggested.append(predictor.complete(states[1], "w1", 8, DecodeConfig(known="free")))
        lists.append([[item.text for item in some] for some in suggested])
        assert isinstance(predictor.decoder("exact"), CompiledDecoder) == compiled
    assert lists[0] == lists[1]
    assert all(lists[0])


def test_fast_mode_scores_nearly_the_same(library: Library) -> None:
    predictor = Predictor(model_of(network(copy=True, words=150)), Guard())
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many(CONTEXTS))
    every = np.tile(np.arange(1, 150), (2 * len(CONTEXTS), 1))
    scores = []
    for mode in ("fast", "exact"):
        decoder = predictor.decoder(mode)
        rows = np.repeat(np.arange(len(CONTEXTS)), 2)
        state = decoder.advance(decoder.start(batch), rows, np.arange(4, 4 + len(rows)))
        scores.append(decoder.predict(state).of(every))
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=0.03)
    assert np.abs(scores[0] - scores[1]).max() > 0  # the modes differ


def test_a_session_longer_than_the_table_of_angles(compiled: bool) -> None:
    torch_model = network(copy=False)
    model = model_of(torch_model, compiled=compiled)
    session = ["w1 w2 w3 w4 w5 w6 w7 w8 w9"] * 60
    [memory] = model.read_sessions([session])
    assert len(memory.cache) > 512
    words = [END_OF_QUERY, *(word for query in session for word in model.vocabulary.encode(query))]
    tokens = torch.tensor(words)
    with torch.no_grad():
        states = torch_model(tokens, torch.zeros_like(tokens), torch.arange(len(words)))
    np.testing.assert_allclose(memory.last, states[-1].numpy(), atol=1e-4)


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

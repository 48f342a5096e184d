"""The Transformer's key-value cache in NumPy against the PyTorch network."""

import itertools
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from nextquery.inference.context import ContextEncoder
from nextquery.inference.native import Library
from nextquery.inference.transformer import TransformerModel, weight_shapes
from nextquery.inference.transformer_blocks import ArrayBlocks, NativeBlocks
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import TRANSFORMER
from nextquery.model.transformer import Transformer
from nextquery.records import Session
from nextquery.text.batching import build_batch
from nextquery.text.corpus import SessionLimits, encode_sessions
from nextquery.text.vocabulary import END_OF_QUERY

from .conftest import neural_model_of, predictor_of, random_model

CONTEXTS = [[], ["w1 w2"], ["w1 w2", "w3 zzz w4", "w5"], ["zzz"], ["w7"] * 30]
CANDIDATES = ["w3", "w1 w2", "w4 w5 w6", "zzz w3"]


def reference(torch_model: Transformer, session: list[str], folder: Path) -> float:
    """The log-likelihood of the last query of a session, by the training code."""
    records, limits = [Session(0, "user", tuple(session))], SessionLimits(99, 99)
    corpus = encode_sessions(records, torch_model.vocabulary, limits, folder)
    batch = build_batch(corpus, np.array([0]), last_only=True)
    with torch.no_grad():
        return float(SessionLikelihood(torch_model, chunk=8).eval()(batch)[0])


@pytest.mark.parametrize("copy", [False, True])
def test_scores_are_those_of_pytorch(copy: bool, compiled: bool, tmp_path: Path) -> None:
    torch_model = random_model(kind=TRANSFORMER, copy=copy)
    predictor = predictor_of(torch_model, compiled=compiled)
    states = predictor.encoder.encode_many(CONTEXTS)
    scored = predictor.score_many(states, [CANDIDATES] * len(CONTEXTS))
    for context, results in zip(CONTEXTS, scored, strict=True):
        read = context[-predictor.encoder.limits.queries :]
        for text, result in zip(CANDIDATES, results, strict=True):
            expected = reference(
                torch_model, [*read, text], tmp_path / f"{CONTEXTS.index(context)} {text}"
            )
            assert result.log_likelihood == pytest.approx(expected, abs=1e-4), (context, text)


@pytest.mark.parametrize("copy", [False, True])
def test_a_session_can_be_read_query_by_query(copy: bool) -> None:
    encoder = ContextEncoder(neural_model_of(random_model(kind=TRANSFORMER, copy=copy)))
    whole = encoder.encode(["w1 w2", "w3 zzz w4", "w5"])
    state = encoder.start()
    for query in ["w1 w2", "w3 zzz w4", "w5"]:
        state = encoder.extend(state, query)
    np.testing.assert_allclose(state.memory.cache, whole.memory.cache, atol=1e-5)
    np.testing.assert_allclose(state.memory.last, whole.memory.last, atol=1e-5)
    for one, other in zip(state.memory.word_states, whole.memory.word_states, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


KERNELS = [*itertools.product([None, "avx2", "baseline"], [16, 44, 96])]
"""Instruction sets and state sizes: heads of less than a vector, of odd halves, of several."""


@pytest.mark.parametrize(("instructions", "size"), KERNELS, indirect=["instructions"])
def test_the_compiled_blocks_are_those_of_numpy(instructions: Library, size: int) -> None:
    torch_model = random_model(kind=TRANSFORMER, model_size=size)
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


def test_a_session_longer_than_the_table_of_angles(compiled: bool) -> None:
    torch_model = random_model(kind=TRANSFORMER)
    model = neural_model_of(torch_model, compiled=compiled)
    session = ["w1 w2 w3 w4 w5 w6 w7 w8 w9"] * 60
    [memory] = model.read_sessions([session])
    assert len(memory.cache) > 512
    words = [END_OF_QUERY, *(word for query in session for word in model.vocabulary.encode(query))]
    tokens = torch.tensor(words)
    with torch.no_grad():
        states = torch_model(tokens, torch.zeros_like(tokens), torch.arange(len(words)))
    np.testing.assert_allclose(memory.last, states[-1].numpy(), atol=1e-4)


def test_attention_to_queries_adds_up_to_one() -> None:
    model = cast("TransformerModel", neural_model_of(random_model(kind=TRANSFORMER)))
    shares = model.attention([["w1 w2", "w3", "w4"], [], ["w1"]])
    assert [len(share) for share in shares] == [3, 0, 1]
    assert float(shares[0].sum()) == pytest.approx(1.0, abs=1e-5)
    assert (shares[0] > 0).all()
    assert shares[2].tolist() == [1.0]


def test_the_shapes_are_those_of_the_network() -> None:
    model = random_model(kind=TRANSFORMER, copy=True)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert weight_shapes(model.config, len(model.vocabulary)) == shapes

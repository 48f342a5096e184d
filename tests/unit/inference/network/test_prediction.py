"""One step of the decoder: its parts against what the equations say, and its size."""

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from nextquery.inference.context import ContextBatch, ContextLimits
from nextquery.inference.hred_decoder import HREDMemory, HREDState
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.model.copying import Layout
from nextquery.model.hred import HRED

from ..conftest import ModelMaker, predictor_of

CONTEXTS = [["w1 w2 zebra", "w1 gnu"], [], ["w5 w6 w5 w7 yak w8"], ["w9"]]


def stepped(
    predictor: Predictor, contexts: Sequence[Sequence[str]]
) -> tuple[ContextBatch[HREDMemory], HREDState, list[int]]:
    """The batch of some contexts, prefixes of one word, two a context, and these words."""
    decoder = predictor.decoder("exact")
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many(contexts))
    rows = np.arange(len(contexts)).repeat(2)
    words = np.arange(5, 5 + len(rows))
    return batch, decoder.advance(decoder.start(batch), rows, words), words.tolist()


@torch.inference_mode()
def reference(
    model: HRED,
    batch: ContextBatch[HREDMemory],
    prefixes: HREDState,
    words: Sequence[int],
    row: int,
) -> torch.Tensor:
    """P(w) of the copying model's equations over V and the session's own words, one row alone."""
    assert model.copying is not None
    place = int(prefixes.contexts[row])
    context, own = batch.contexts[place], batch.vocabularies[place]
    size = len(model.vocabulary) + len(own.outside)
    word = torch.tensor([words[row]])
    hidden, previous = torch.from_numpy(prefixes.hidden[row])[None], model.previous_words(word)
    session = model.session_inputs(torch.from_numpy(context.memory.session_state)[None])
    omega, gate = model.output_vector(hidden, word, session), torch.zeros(1)
    pointer = torch.zeros(size)
    if context.copied_words:
        states = torch.from_numpy(np.concatenate(context.memory.word_states))
        memory = model.copying.remember(states[None])
        query_of_word = np.repeat(
            np.arange(len(context.queries)), [len(query.split()) for query in context.queries]
        )
        ages = len(context.queries) - torch.from_numpy(query_of_word)
        alone = Layout(torch.tensor([[0]]), torch.tensor([0]))
        seen = model.copying.attend(hidden, previous, memory, ages[None, None], alone)
        omega, gate = omega + seen.output, seen.gate.sigmoid()
        for copied, weight in zip(context.copied_words, seen.weights[0, 0], strict=True):
            pointer[own.id(copied)] += weight
    logits = omega @ model.output_matrix.t()
    logits[:, 0] = -torch.inf
    softmax = torch.cat([logits.softmax(dim=1)[0], torch.zeros(len(own.outside))])
    return (1 - gate) * softmax + gate * pointer


def test_a_copying_step_follows_the_equations(make_model: ModelMaker) -> None:
    model = make_model(copy=True)
    predictor = predictor_of(model)
    batch, prefixes, last = stepped(predictor, CONTEXTS)
    prediction = predictor.decoder("exact").predict(prefixes)
    for row in range(len(prefixes)):
        expected = reference(model, batch, prefixes, last, row).numpy()
        words = np.arange(1, len(expected))
        asked = np.broadcast_to(words, (len(prefixes), len(words)))
        found = np.exp(prediction.of(asked)[row])
        np.testing.assert_allclose(found, expected[words], rtol=1e-4, atol=1e-6)


def test_the_best_words_are_those_of_highest_probability(make_model: ModelMaker) -> None:
    model = make_model(copy=True)
    predictor = predictor_of(model)
    batch, prefixes, last = stepped(predictor, CONTEXTS)
    prediction = predictor.decoder("exact").predict(prefixes)
    for row in range(len(prefixes)):
        best = prediction.best(slice(row, row + 1), np.zeros(1), 8)
        expected = reference(model, batch, prefixes, last, row).log().topk(8)
        assert best.words[:8].tolist() == expected.indices.tolist()
        np.testing.assert_allclose(best.totals[:8], expected.values.numpy(), rtol=1e-4, atol=1e-5)
        assert len(set(best.words.tolist())) == len(best.words), "a word stands there twice"


def peak(model: HRED, queries: int) -> int:
    """The most memory that a list takes after so many queries of 30 different words."""
    predictor = predictor_of(model, limits=ContextLimits(queries=queries, words=30))
    context = [" ".join(f"x{30 * q + n}" for n in range(30)) for q in range(queries)]
    state = predictor.encoder.encode(context)
    config = DecodeConfig(max_words=3)
    predictor.suggest_many([state], 5, config)
    tracemalloc.start()
    try:
        predictor.suggest_many([state], 5, config)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_square_of_the_words(make_model: ModelMaker) -> None:
    model = make_model(copy=True)
    assert peak(model, 40) <= 4.5 * peak(model, 10)


@pytest.mark.parametrize("copying", [False, True])
def test_a_session_beyond_its_limit_costs_what_the_limit_costs(
    make_model: ModelMaker, copying: bool
) -> None:
    limits = ContextLimits(queries=3, words=2)
    predictor = predictor_of(make_model(copy=copying), limits=limits)
    long = [f"w{n} w{n + 1} w{n + 2}" for n in range(30)]
    state, short = predictor.encoder.encode(long), predictor.encoder.encode(long[-3:])
    assert state.queries == tuple(long)
    assert state.copied_words == short.copied_words
    np.testing.assert_allclose(state.memory.session_state, short.memory.session_state, rtol=1e-4)
    found, expected = (
        [each.text for each in predictor.suggest_many([one], 8, DecodeConfig())[0]]
        for one in (state, short)
    )
    # Only what stands in the unread part of the session may differ: it is not suggested again.
    assert [text for text in found if text in expected] == [
        text for text in expected if text not in long
    ][: len(found)]

"""One step of the decoder: its parts against what the equations say, and its size."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nextquery.guard.guard import Guard
from nextquery.inference.contexts import ContextLimits
from nextquery.inference.decoder import ContextBatch, Decoder, Prefixes
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.model.hred import HRED

from .conftest import ModelMaker

CONTEXTS = [["w1 w2 zebra", "w1 gnu"], [], ["w5 w6 w5 w7 yak w8"], ["w9"]]


def stepped(predictor: Predictor, contexts: Sequence[Sequence[str]]) -> tuple[Any, Prefixes]:
    """The batch of some contexts and prefixes of one word, two a context."""
    decoder = predictor.decoder("exact")
    batch = ContextBatch(predictor.model, predictor.encoder.encode_many(contexts))
    rows = torch.arange(len(contexts)).repeat_interleave(2)
    prefixes = decoder.start(batch).take(rows)
    return batch, decoder.advance(batch, prefixes, torch.arange(5, 5 + len(rows)))


def reference(decoder: Decoder, batch: ContextBatch, prefixes: Prefixes, row: int) -> Tensor:
    """P(w) of the copying model's equations over V and the session's own words, one row alone."""
    model, words = decoder.model, prefixes.words
    assert model.copying is not None
    assert words is not None
    place = int(prefixes.contexts[row])
    context, own = batch.contexts[place], batch.own[place]
    size = len(model.vocabulary) + len(own.outside)
    hidden, previous = prefixes.hidden[row][None], model.previous_words(words[row][None])
    session = model.session_inputs(context.session_state[None])
    omega, gate = model.output_vector(hidden, words[row][None], session), torch.zeros(1)
    pointer = torch.zeros(size)
    if context.copied_words:
        memory = model.copying.remember(torch.cat(context.copied_states)[None])
        ages = len(context.queries) - torch.tensor(context.copied_from)
        seen = model.copying.attend(hidden[None], previous[None], memory, ages[None, None])
        omega, gate = omega + seen.output[0], seen.gate[0].sigmoid()
        for word, weight in zip(context.copied_words, seen.weights[0, 0], strict=True):
            pointer[own.id(word)] += weight
    logits = omega @ model.output_matrix.t()
    logits[:, 0] = -torch.inf
    softmax = torch.cat([logits.softmax(dim=1)[0], torch.zeros(len(own.outside))])
    return (1 - gate) * softmax + gate * pointer


@torch.inference_mode()
def test_a_copying_step_follows_the_equations(make_model: ModelMaker) -> None:
    predictor = Predictor(make_model(copy=True), Guard())
    decoder = predictor.decoder("exact")
    batch, prefixes = stepped(predictor, CONTEXTS)
    prediction = decoder.predict(batch, prefixes)
    for row in range(len(prefixes.hidden)):
        expected = reference(decoder, batch, prefixes, row)
        words = torch.arange(1, len(expected))
        asked = words[None].expand(len(prefixes.hidden), -1)
        inside = asked.where(asked < len(expected), 1)
        found = prediction.of(inside)[row].exp()
        torch.testing.assert_close(found, expected[words], rtol=1e-4, atol=1e-6)


@torch.inference_mode()
def test_the_best_words_are_those_of_highest_probability(make_model: ModelMaker) -> None:
    predictor = Predictor(make_model(copy=True), Guard())
    decoder = predictor.decoder("exact")
    batch, prefixes = stepped(predictor, CONTEXTS)
    prediction = decoder.predict(batch, prefixes)
    for row in range(len(prefixes.hidden)):
        best = prediction.best(slice(row, row + 1), torch.zeros(1), 8)
        order = best.totals.argsort(descending=True)[:8]
        expected = reference(decoder, batch, prefixes, row).log().topk(8)
        assert best.words[order].tolist() == expected.indices.tolist()
        torch.testing.assert_close(best.totals[order], expected.values, rtol=1e-4, atol=1e-5)
        assert len(set(best.words.tolist())) == len(best.words), "a word stands there twice"


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The most numbers that any operation gave."""

    numbers: int = 0

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self, func, types, args=(), kwargs=None
    ):
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple) else (result,):
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.numel())
        return result


def largest(model: HRED, queries: int) -> int:
    """The largest tensor of a list for so many queries of 30 different words."""
    limits = ContextLimits(queries=queries, words=30)
    predictor = Predictor(model, Guard(), limits)
    context = [" ".join(f"x{30 * q + n}" for n in range(30)) for q in range(queries)]
    state = predictor.encoder.encode(context)
    predictor.suggest_many([state], 5, DecodeConfig())
    watched = LargestTensor()  # type: ignore[no-untyped-call]
    with watched:
        predictor.suggest_many([state], 5, DecodeConfig())
    return watched.numbers


def test_no_tensor_grows_with_the_square_of_the_words(make_model: ModelMaker) -> None:
    model = make_model(copy=True)
    few, many = largest(model, 10), largest(model, 40)
    assert many <= 4.5 * few
    beam, words = 10, 40 * 30
    assert many <= beam * words * model.config.query_size


@pytest.mark.parametrize("copying", [False, True])
def test_a_session_beyond_its_limit_costs_what_the_limit_costs(
    make_model: ModelMaker, copying: bool
) -> None:
    predictor = Predictor(make_model(copy=copying), Guard(), ContextLimits(queries=3, words=2))
    long = [f"w{n} w{n + 1} w{n + 2}" for n in range(30)]
    state, short = predictor.encoder.encode(long), predictor.encoder.encode(long[-3:])
    assert state.queries == tuple(long)
    assert state.copied_words == short.copied_words
    torch.testing.assert_close(state.session_state, short.session_state)
    found, expected = (
        [each.text for each in predictor.suggest_many([one], 8, DecodeConfig())[0]]
        for one in (state, short)
    )
    # Only what stands in the unread part of the session may differ: it is not suggested again.
    assert [text for text in found if text in expected] == [
        text for text in expected if text not in long
    ][: len(found)]

"""The compiled decoder against NumPy's, for every form of the model and every instruction set."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nextquery.inference.context import ContextBatch
from nextquery.inference.decoder import Prediction
from nextquery.inference.hred_decoder import HREDState
from nextquery.inference.native import Library, native_library
from nextquery.inference.native_decoder import NativeDecoder
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig, Mode

from ..conftest import FORMS, ModelMaker, predictor_of

CONTEXTS = [["w1 w2 zebra", "w1 gnu"], [], ["w5 w6 w5 w7 yak w8"], ["w9"]]
MORE_FORMS: dict[str, dict[str, Any]] = {
    **FORMS,
    "unfactored": {"factored": False, "copy": True},
    "tied": {"tied": True, "zero_step": True, "start_query": True},
    "odd sizes": {"embedding_size": 13, "query_size": 19, "session_size": 7, "copy": True},
}


@pytest.fixture(params=["avx512", "avx2", "baseline"], autouse=True)
def kernels(request: pytest.FixtureRequest) -> Iterator[Library]:
    found = native_library()
    if found is None:
        pytest.skip("nextquery-native is not installed (scripts/native)")
    if not found.use(request.param):
        pytest.skip(f"this processor has no {request.param}")
    yield found
    found.use(None)


def stepped(predictor: Predictor, mode: Mode, each: int) -> tuple[HREDState, Prediction]:
    """HREDState of one word, some of each context, and what comes next."""
    decoder = predictor.decoder(mode)
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many(CONTEXTS))
    rows = np.arange(len(CONTEXTS)).repeat(each)
    words = 3 + np.arange(len(rows)) % 37
    words[-1] = len(predictor.model.vocabulary)  # an own word
    prefixes = decoder.advance(decoder.start(batch), rows, words)
    return prefixes, decoder.predict(prefixes)


@pytest.mark.parametrize("form", MORE_FORMS)
@pytest.mark.parametrize("each", [1, 2, 5])
def test_a_step_is_that_of_numpy(make_model: ModelMaker, form: str, each: int) -> None:
    model = make_model(words=150, **MORE_FORMS[form])
    found, prediction = stepped(predictor_of(model), "exact", each)
    expected, reference = stepped(predictor_of(model, compiled=False), "exact", each)
    np.testing.assert_allclose(found.hidden, expected.hidden, rtol=1e-4, atol=1e-5)
    assert found.previous is not None
    assert expected.previous is not None
    np.testing.assert_allclose(found.previous, expected.previous, rtol=1e-4, atol=1e-5)
    words = np.tile(np.arange(1, 150), (len(found), 1))
    np.testing.assert_allclose(prediction.of(words), reference.of(words), rtol=1e-4, atol=1e-4)
    before = -np.arange(float(each))
    for first in range(0, len(found), each):
        rows = slice(first, first + each)
        for count in (1, 7, 1000):
            best, other = (p.best(rows, before, count) for p in (prediction, reference))
            np.testing.assert_array_equal(best.words, other.words)
            np.testing.assert_array_equal(best.rows, other.rows)
            np.testing.assert_allclose(best.totals, other.totals, rtol=1e-4, atol=1e-4)
            assert best.rest == pytest.approx(other.rest, abs=1e-4)


@pytest.mark.parametrize("form", MORE_FORMS)
def test_fast_mode_scores_nearly_the_same(make_model: ModelMaker, form: str) -> None:
    model = make_model(words=150, **MORE_FORMS[form])
    predictor = predictor_of(model)
    _, fast = stepped(predictor, "fast", 3)
    _, exact = stepped(predictor, "exact", 3)
    words = np.tile(np.arange(1, 150), (12, 1))
    np.testing.assert_allclose(fast.of(words), exact.of(words), rtol=0, atol=0.03)
    best, other = (p.best(slice(0, 3), np.zeros(3), 12) for p in (fast, exact))
    for one, two in ((best, other), (other, best)):
        listed = set(zip(one.rows.tolist(), one.words.tolist(), strict=True))
        nearly = two.totals[:10] > two.totals[9] + 0.05  # beyond what rounding can turn around
        sure = zip(two.rows[:10][nearly].tolist(), two.words[:10][nearly].tolist(), strict=True)
        assert set(sure) <= listed


@pytest.mark.parametrize("form", MORE_FORMS)
def test_the_lists_are_those_of_numpy(make_model: ModelMaker, form: str) -> None:
    model = make_model(words=90, **MORE_FORMS[form])
    lists = []
    for compiled in (True, False):
        predictor = predictor_of(model, compiled=compiled)
        states = predictor.encoder.encode_many(CONTEXTS)
        found = predictor.suggest_many(states, 8, DecodeConfig(max_words=4))
        found.append(predictor.complete(states[0], "w1", 8, DecodeConfig(known="free")))
        lists.append([[each.text for each in some] for some in found])
        assert isinstance(predictor.decoder("exact"), NativeDecoder) == compiled
    assert lists[0] == lists[1]


def test_a_row_alone_has_the_numbers_it_has_in_company(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(words=150))
    decoder = predictor.decoder("exact")
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many([["w1 w2"]]))
    rows, words = np.zeros(11, dtype=np.int64), np.arange(3, 14)
    together = decoder.advance(decoder.start(batch), rows, words)
    every = np.arange(1, 150)[None]
    scores = decoder.predict(together).of(np.repeat(every, 11, axis=0))
    for row in range(11):
        alone = decoder.advance(decoder.start(batch), rows[:1], words[row : row + 1])
        np.testing.assert_array_equal(alone.hidden[0], together.hidden[row])
        np.testing.assert_array_equal(decoder.predict(alone).of(every)[0], scores[row])


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("sizes", [(9000, 512, 16), (200, 12, 1500)], ids=["words", "states"])
def test_a_step_that_threads_share_has_the_same_numbers(
    make_model: ModelMaker, kernels: Library, mode: Mode, sizes: tuple[int, int, int]
) -> None:
    words, embedding, query = sizes
    model = make_model(words=words, embedding_size=embedding, query_size=query)
    predictor = predictor_of(model)
    decoder = predictor.decoder(mode)
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many([["w1 w2"]]))
    last = np.arange(3, 43)
    rows, asked = np.zeros(len(last), dtype=np.int64), np.arange(5, 15)[None].repeat(40, axis=0)
    found = []
    for threads in (1, 3):
        kernels.use_threads(threads)
        prefixes = decoder.advance(decoder.start(batch), rows, last)
        prefixes = decoder.advance(prefixes, np.arange(40), last[::-1].copy())
        prediction = decoder.predict(prefixes)
        best = prediction.best(slice(0, 40), np.zeros(40), 40)
        found.append((prefixes.hidden, prediction.of(asked), best.words, best.totals))
    kernels.use_threads(1)
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


def test_a_buffer_is_used_again_only_when_its_prediction_is_gone(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(words=150))
    decoder = predictor.decoder("exact")
    assert isinstance(decoder, NativeDecoder)
    batch = ContextBatch(
        predictor.model.vocabulary, predictor.encoder.encode_many([["w1 w2"], ["w3"]])
    )
    start = decoder.start(batch)
    words = np.tile(np.arange(1, 150), (2, 1))
    kept = decoder.predict(start)
    expected = kept.of(words)
    other = decoder.advance(start, np.array([0, 1]), np.array([5, 6]))
    decoder.predict(other)
    np.testing.assert_array_equal(kept.of(words), expected)
    assert len(decoder.buffers) == 1

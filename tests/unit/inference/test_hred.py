"""HRED in NumPy: its equations, its decoder, its usefulness head."""

import math
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from nextquery.errors import InputError
from nextquery.inference.context import ContextBatch, ContextLimits, SessionVocabulary
from nextquery.inference.hred_network import DecoderState, HREDMemory, sigmoid
from nextquery.inference.native import native_library
from nextquery.inference.output import CopySources
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.weights import MOST_ROWS, WeightProducts
from nextquery.model.hred import HRED
from nextquery.model.stored import Layout

from .conftest import ModelMaker, hred_of, network_of, predictor_of

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

    def same(result: np.ndarray | None, expected: torch.Tensor | None) -> None:
        assert (result is None) == (expected is None)
        if result is not None and expected is not None:
            assert result.dtype == np.float32
            np.testing.assert_allclose(result, expected.numpy(), rtol=1e-4, atol=1e-5)

    same(network.output_matrix, model.output_matrix)
    same(network.start_session(3), model.start_session(3))
    state = torch.randn((7, model.config.session_size))
    vectors = torch.randn((7, model.config.query_size))
    for result, expected in zip(
        network.extend_session(state.numpy(), vectors.numpy()),
        model.extend_session(state, vectors),
        strict=True,
    ):
        same(result, expected)
    session, inputs = model.session_inputs(state), network.session_inputs(state.numpy())
    same(inputs.step, session.step)
    same(inputs.output, session.output)
    same(network.start_decoder(state.numpy(), inputs), model.start_decoder(state, session))
    words = torch.arange(3, 10)
    after = network.advance_decoder(vectors.numpy(), words.numpy(), inputs)
    same(after, model.advance_decoder(vectors, words, session))
    previous = network.previous_words(words.numpy())
    same(previous, model.previous_words(words))
    for previous_words, last in ((previous, words), (None, None)):
        omega = network.output_vector(vectors.numpy(), previous_words, inputs)
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
    result = network_of(model).encode_queries(queries)
    for row, query in enumerate(queries):
        np.testing.assert_allclose(result[row], states[row, : len(query)], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(result[row][-1], vectors[row], rtol=1e-4, atol=1e-5)


def test_a_sigmoid_never_overflows() -> None:
    values = np.array([-1e4, -1.0, 0.0, 1e4], dtype=np.float32)
    np.testing.assert_allclose(sigmoid(values), [0.0, 0.2689414, 0.5, 1.0], atol=1e-6)


WEIGHTS = {
    "wide": np.random.default_rng(1).normal(size=(77, 130)).astype(np.float32),
    "one": np.random.default_rng(2).normal(size=(1, 3)).astype(np.float32),
}


@pytest.mark.parametrize("count", [0, 1, 6, 7, MOST_ROWS + 1])
def test_the_kernel_gives_what_numpy_gives(count: int) -> None:
    products = WeightProducts(WEIGHTS, native_library())
    for name, matrix in WEIGHTS.items():
        rows = np.random.default_rng(3).normal(size=(count, matrix.shape[1])).astype(np.float32)
        np.testing.assert_allclose(
            products.times(name, rows), rows @ matrix.T, rtol=1e-5, atol=1e-4
        )


def test_rows_need_not_be_contiguous() -> None:
    matrix = WEIGHTS["wide"]
    rows = np.asfortranarray(np.random.default_rng(4).normal(size=(9, 260)).astype(np.float32))

    result = WeightProducts(WEIGHTS, native_library()).times("wide", rows[:, ::2])

    np.testing.assert_allclose(result, rows[:, ::2] @ matrix.T, rtol=1e-5, atol=1e-4)


SEARCH = """
import time
import numpy as np
from nextquery.inference.weights import WeightProducts
from nextquery.inference.native import native_library
products = WeightProducts({"matrix": np.ones((512, 512), dtype=np.float32)}, native_library())
rows = np.ones((64, 512), dtype=np.float32)
start = time.process_time() - time.thread_time()
for _ in range(200):
    products.times("matrix", rows)
print(time.process_time() - time.thread_time() - start)
"""


@pytest.mark.skipif(native_library() is None, reason="the compiled kernels are not installed")
def test_few_rows_start_no_threads() -> None:
    """CPU time of other threads: NumPy's would spin between two products."""
    run = [sys.executable, "-c", SEARCH]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    ran = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)

    assert float(ran.stdout) < 0.001


CONTEXTS = [["w1 w2 zebra", "w1 gnu"], [], ["w5 w6 w5 w7 yak w8"], ["w9"]]


def stepped(
    predictor: Predictor, contexts: Sequence[Sequence[str]]
) -> tuple[ContextBatch[HREDMemory], DecoderState, list[int]]:
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
    prefixes: DecoderState,
    words: Sequence[int],
    row: int,
) -> torch.Tensor:
    """P(w) of the copying model's equations over V and the session's own words, one row alone."""
    assert model.copying is not None
    position = int(prefixes.contexts[row])
    context, session_words = batch.contexts[position], batch.vocabularies[position]
    size = len(model.vocabulary) + len(session_words.outside)
    word = torch.tensor([words[row]])
    hidden, previous = torch.from_numpy(prefixes.hidden[row])[None], model.previous_words(word)
    session = model.session_inputs(torch.from_numpy(context.memory.session_state)[None])
    omega, gate = model.output_vector(hidden, word, session), torch.zeros(1)
    pointer = torch.zeros(size)
    if context.copied_words:
        states = torch.from_numpy(np.concatenate(context.memory.word_states))
        query_of_word = np.repeat(
            np.arange(len(context.queries)), [len(query.split()) for query in context.queries]
        )
        ages = len(context.queries) - torch.from_numpy(query_of_word)
        alone = Layout(torch.tensor([[0]]), torch.tensor([0]))
        seen = model.copying.attend(hidden, previous, states[None], ages[None, None], alone)
        omega, gate = omega + seen.output, seen.gate.sigmoid()
        for copied, weight in zip(context.copied_words, seen.weights[0, 0], strict=True):
            pointer[session_words.id(copied)] += weight
    logits = omega @ model.output_matrix.t()
    logits[:, 0] = -torch.inf
    softmax = torch.cat([logits.softmax(dim=1)[0], torch.zeros(len(session_words.outside))])
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
        result = np.exp(prediction.of(asked)[row])
        np.testing.assert_allclose(result, expected[words], rtol=1e-4, atol=1e-6)


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
        assert len(set(best.words.tolist())) == len(best.words), "a word is there twice"


def peak(model: HRED, queries: int) -> int:
    """The most memory that a list takes after N queries of 30 different words."""
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
    result, expected = (
        [item.text for item in predictor.suggest_many([one], 8, DecodeConfig())[0]]
        for one in (state, short)
    )
    # Only what is in the unread part of the session may differ: it is not suggested again.
    assert [text for text in result if text in expected] == [
        text for text in expected if text not in long
    ][: len(result)]


def sources_of(
    predictor: Predictor, *contexts: list[str]
) -> tuple[CopySources | None, SessionVocabulary]:
    """What can be copied, and the words of the first context."""
    states = predictor.encoder.encode_many(contexts)
    batch = ContextBatch(predictor.model.vocabulary, states)
    network = hred_of(predictor).network
    return CopySources.of(network.weights, network.products, batch), batch.vocabularies[0]


def test_sources_of_all_contexts_follow_each_other(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(copy=True))
    sources, session_words = sources_of(predictor, ["w2 zebra", "w1 zebra"], [], ["w7"])
    assert sources is not None
    assert sources.first.tolist() == [0, 4, 4, 5]
    words = sources.table.words
    positions = zip([0, 0, 0, 0, 2], sources.columns, strict=True)
    result = [words[sources.table.first[context] + position] for context, position in positions]
    assert result == [session_words.id(word) for word in ("w2", "zebra", "w1", "zebra", "w7")]
    ages = hred_of(predictor).network.weights["copying.age"]
    np.testing.assert_array_equal(sources.age_scores, ages[[1, 1, 0, 0, 0]])
    key = hred_of(predictor).network.weights["copying.key.weight"]
    np.testing.assert_allclose(sources.keys, sources.states @ key.T / 4.0, rtol=1e-5, atol=1e-6)


def test_without_words_or_without_copying_there_are_no_sources(make_model: ModelMaker) -> None:
    assert sources_of(predictor_of(make_model(copy=True)), [], [])[0] is None
    assert sources_of(predictor_of(make_model()), ["w1"])[0] is None


JUDGED_CONTEXTS = [["w3 w4", "w5"], ["w6"], []]
TEXTS = [["w7 w8 w9", "w1"], ["w2 never"], []]
PLAIN = DecodeConfig(specificity=0.0, known="free", fold=False)


@pytest.mark.parametrize(
    "settings",
    [{}, {"decoder_context": "all", "gru_biases": True}, {"copy": True, "zero_step": True}],
    ids=["paper", "all", "copying"],
)
@torch.inference_mode()
def test_it_is_the_head_of_the_model(make_model: ModelMaker, settings: dict[str, Any]) -> None:
    model = make_model(usefulness=True, **settings)
    assert model.usefulness is not None
    predictor = predictor_of(model)
    states = predictor.encoder.encode_many(JUDGED_CONTEXTS)
    result = predictor.usefulness_many(states, TEXTS)
    assert list(map(len, result)) == [2, 1, 0]
    for state, texts, values in zip(states, TEXTS, result, strict=True):
        session = torch.from_numpy(state.memory.session_state)[None]
        inputs = model.session_inputs(session)
        for text, value in zip(texts, values, strict=True):
            decoder = model.start_decoder(session, inputs)
            for word in model.vocabulary.encode(text)[:-1]:
                decoder = model.advance_decoder(decoder, torch.tensor([word]), inputs)
            expected = torch.sigmoid(model.usefulness(decoder)).item()
            assert value == pytest.approx(expected, rel=1e-4)


def test_a_list_is_ordered_by_both(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(usefulness=True, decoder_context="all"))
    states = predictor.encoder.encode_many([["w3 w4", "w5"]])
    [plain] = predictor.suggest_many(states, 30, PLAIN)
    weighed = PLAIN.model_copy(update={"usefulness": 4.0})
    [useful] = predictor.suggest_many(states, 30, weighed)
    [scored] = predictor.score_many(states, [[item.text for item in useful]])
    scores = {item.text: item.log_likelihood for item in scored}
    for item in useful:
        assert item.usefulness is not None
        assert item.score == pytest.approx(
            scores[item.text] + 4.0 * math.log(item.usefulness), abs=1e-4
        )
    assert [item.score for item in useful] == sorted((e.score for e in useful), reverse=True)
    assert [item.text for item in useful] != [item.text for item in plain]
    assert all(item.usefulness is None for item in plain)


def test_a_model_without_it_says_so(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model())
    assert not predictor.judges_usefulness
    with pytest.raises(InputError, match="no usefulness head; train one with"):
        predictor.usefulness_many([], [])
    with pytest.raises(InputError, match="no usefulness head; train one with"):
        predictor.suggest_many([], 5, DecodeConfig(usefulness=1.0))


def test_a_hopeless_query_keeps_a_finite_logarithm(make_model: ModelMaker) -> None:
    model = make_model(usefulness=True)
    assert model.usefulness is not None
    with torch.no_grad():
        model.usefulness.bias.fill_(-1000.0)
    predictor = predictor_of(model)
    [[result]] = predictor.usefulness_many([predictor.encoder.start()], [["w1"]])
    assert result > 0
    assert np.isfinite(math.log(result))

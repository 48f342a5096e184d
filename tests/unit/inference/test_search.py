"""Beam search and sampling: against greedy decoding, against all queries, and step by step."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from nextquery.guard.fingerprints import RareSet, pair_keys, text_keys
from nextquery.guard.guard import Guard
from nextquery.guard.tables import Tables
from nextquery.inference.context import ContextBatch
from nextquery.inference.decoder import (
    DecodingCancelledError,
    SearchStart,
    cancel_when,
    raise_if_cancelled,
)
from nextquery.inference.predictor import Predictor
from nextquery.inference.rules import ContextRules, LivePrefixes, VocabularyRules
from nextquery.inference.search import (
    ArraySteps,
    Extensions,
    FinishedQuery,
    allowed_extensions,
    beam_search,
    shape,
)
from nextquery.inference.settings import DecodeConfig, Mode, override
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionModel
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN

from .conftest import FORMS, ModelMaker, assert_scored, predictor_of, texts

CONTEXTS = [["w1 w2", "w3 zebra"], [], ["w7"], ["w1 w2", "w5 w6", "yak w8"]]


def started(
    predictor: Predictor,
    contexts: Sequence[Sequence[str]],
    mode: Mode = "exact",
    *,
    seen: bool = False,
) -> SearchStart:
    """The empty prefix of each context, under the rules of the guard."""
    vocabulary = predictor.model.vocabulary
    batch = ContextBatch(vocabulary, predictor.encoder.encode_many(contexts))
    shared = VocabularyRules(predictor.guard, vocabulary)
    rules = [
        ContextRules(shared, context.queries, words, seen_pairs=seen)
        for context, words in zip(batch.contexts, batch.vocabularies, strict=True)
    ]
    state = predictor.decoder(mode).start(batch)
    return SearchStart(rules, state, LivePrefixes.start(len(contexts)))


def with_words(predictor: Predictor, start: SearchStart, mode: Mode = "exact") -> SearchStart:
    """Four prefixes of one word for each of four contexts."""
    parents, words = np.arange(4).repeat(4), 3 + np.arange(16) * 5
    words[1] = len(predictor.model.vocabulary) if predictor.model.copies else 50  # zebra
    live = LivePrefixes(words[:, None], -np.arange(16.0) % 4, parents)
    return SearchStart(
        start.rules, predictor.decoder(mode).advance(start.state, parents, words), live
    )


def search(
    model: SessionModel, contexts: Sequence[Sequence[str]], config: DecodeConfig
) -> list[list[FinishedQuery]]:
    predictor = predictor_of(model)
    return beam_search(predictor.decoder("exact"), config, started(predictor, contexts))


def greedy(predictor: Predictor, context: Sequence[str], most: int) -> list[str]:
    """The best next word by full scores of every continuation, until the end is best."""
    words: list[str] = []
    vocabulary = predictor.model.vocabulary.words
    state = predictor.encoder.encode(context)
    batch = ContextBatch(predictor.model.vocabulary, [state])
    decoder = predictor.decoder("exact")
    prefixes = decoder.start(batch)
    ids = [
        i for i in range(1, len(vocabulary) + len(batch.vocabularies[0].outside)) if i != UNKNOWN
    ]
    while len(words) < most:
        scores = decoder.predict(prefixes).of(np.array([ids]))[0]
        if not words:
            scores[ids.index(END_OF_QUERY)] = -np.inf
        best = ids[int(scores.argmax())]
        if best == END_OF_QUERY:
            break
        words.append(batch.vocabularies[0].word(best))
        prefixes = decoder.advance(prefixes, np.array([0]), np.array([best]))
    return words


def test_beam_one_is_greedy(any_model: SessionModel) -> None:
    lists = search(any_model, CONTEXTS, DecodeConfig(specificity=0.0, beam=1, max_words=6))
    predictor = predictor_of(any_model)
    for context, queries in zip(CONTEXTS, lists, strict=True):
        assert queries[0].text == " ".join(greedy(predictor, context, 6))


@pytest.mark.parametrize(
    ("form", "length_normalised"), [*((form, False) for form in FORMS), ("all-copying", True)]
)
def test_a_wide_beam_finds_the_best_of_all_queries(
    make_model: ModelMaker, form: str, length_normalised: bool
) -> None:
    model = make_model(words=6, **FORMS[form])
    copying = model.copying is not None
    predictor = predictor_of(model)
    context = ["w1 w2", "w3 zebra"]
    words = [*model.vocabulary.words[3:], *(["zebra"] if copying else [])]
    every = [" ".join(some) for n in (1, 2, 3) for some in itertools.product(words, repeat=n)]
    every = [text for text in every if text not in context]
    scored = predictor.score_many([predictor.encoder.encode(context)], [every])[0]
    value = {
        item.text: item.log_likelihood / (item.words if length_normalised else 1) for item in scored
    }
    expected = sorted(every, key=lambda text: -value[text])[:20]
    config = DecodeConfig(
        specificity=0.0, beam=1000, max_words=3, length_normalised=length_normalised
    )
    result = search(model, [context], config)[0]
    assert len(result) == len(every)
    assert [item.text for item in result[:20]] == expected
    for item in result[:20]:
        assert item.value(length_normalised) == pytest.approx(value[item.text], abs=1e-4)


def test_scores_are_those_of_rescoring(any_predictor: Predictor) -> None:
    states = any_predictor.encoder.encode_many(CONTEXTS)
    modes: dict[Mode, float] = {"exact": 1e-4, "fast": 0.05}
    for mode, within in modes.items():
        config = DecodeConfig(specificity=0.0, beam=12, max_words=5, mode=mode)
        lists = any_predictor.suggest_many(states, 8, config)
        assert sum(map(len, lists)) > 12
        assert_scored(any_predictor, states, lists, within)


def test_contexts_together_equal_contexts_alone(any_predictor: Predictor) -> None:
    states = any_predictor.encoder.encode_many(CONTEXTS)
    config = DecodeConfig(specificity=0.0, beam=7, max_words=5)
    together = any_predictor.suggest_many(states, 7, config)
    for state, suggestions in zip(states, together, strict=True):
        alone = any_predictor.suggest_many([state], 7, config)[0]
        assert texts(alone) == texts(suggestions)


def test_threads_that_ask_at_once_get_what_one_gets(predictor: Predictor) -> None:
    states = predictor.encoder.encode_many(CONTEXTS)
    config = DecodeConfig(specificity=0.0, beam=7, max_words=5)
    expected = predictor.suggest_many(states, 7, config)
    with ThreadPoolExecutor(4) as threads:
        result = list(threads.map(lambda _: predictor.suggest_many(states, 7, config), range(12)))
    assert result == [expected] * 12


def test_lengths_are_limited(model: HRED) -> None:
    config = DecodeConfig(specificity=0.0, beam=10, min_words=2, max_words=3)
    for queries in search(model, CONTEXTS, config):
        assert queries
        assert {len(query.text.split()) for query in queries} <= {2, 3}


def test_no_unknown_word_and_no_query_of_the_session(predictor: Predictor) -> None:
    state = predictor.encoder.start()
    config = DecodeConfig(specificity=0.0, beam=20, max_words=3)
    first = predictor.suggest_many([state], 3, config)[0]
    assert all("<" not in item.text for item in first)
    again = predictor.encoder.extend(state, first[0].text.upper())
    later = predictor.suggest_many([again], 20, config)[0]
    assert first[0].text not in [item.text for item in later]


def test_only_a_copying_model_brings_back_words_outside_the_vocabulary(
    make_model: ModelMaker,
) -> None:
    for copying in (False, True):
        result = search(
            make_model(copy=copying),
            [["zebra"]],
            DecodeConfig(specificity=0.0, beam=40, max_words=2),
        )[0]
        assert any("zebra" in item.text.split() for item in result) == copying


@pytest.mark.parametrize("fold", [True, False])
def test_stopping_early_changes_no_list(predictor: Predictor, fold: bool) -> None:
    """A search that stops when the first n are sure gives the first n of the whole search."""
    states = predictor.encoder.encode_many(CONTEXTS)
    config = DecodeConfig(specificity=0.0, known="free", beam=12, max_words=5, fold=fold)
    whole = predictor.suggest_many(states, 12, config)
    for n in (1, 3, 8):
        few = predictor.suggest_many(states, n, config)
        assert list(map(texts, few)) == [texts(some[:n]) for some in whole]


def textbook_beam(
    predictor: Predictor, context: Sequence[str], beam: int, most: int
) -> list[tuple[str, float]]:
    """Beam search as textbooks have it: finished queries keep their places among the best."""
    batch = ContextBatch(predictor.model.vocabulary, [predictor.encoder.encode(context)])
    session_words = batch.vocabularies[0]
    decoder = predictor.decoder("exact")
    ids = list(range(1, len(predictor.model.vocabulary.words) + len(session_words.outside)))
    ids.remove(UNKNOWN)

    def following(words: tuple[int, ...]) -> dict[int, float]:
        state = decoder.start(batch)
        for word in words:
            state = decoder.advance(state, np.array([0]), np.array([word]))
        scores = decoder.predict(state).of(np.array([ids]))[0]
        if len(words) == most:
            return {END_OF_QUERY: scores[ids.index(END_OF_QUERY)]}
        return {i: float(s) for i, s in zip(ids, scores, strict=True) if words or i != END_OF_QUERY}

    best: list[tuple[float, tuple[int, ...], bool]] = [(0.0, (), False)]
    while not all(finished for *_, finished in best):
        pool = [item for item in best if item[2]]
        for total, words, finished in best:
            if not finished:
                for word, score in following(words).items():
                    ends = word == END_OF_QUERY
                    pool.append((total + score, words if ends else (*words, word), ends))
        best = sorted(pool, key=lambda item: -item[0])[:beam]
    return [(" ".join(map(session_words.word, words)), total) for total, words, _ in best]


@pytest.mark.parametrize("beam", [1, 3, 8])
@pytest.mark.parametrize("copy", [False, True])
def test_finished_queries_may_keep_their_beam_slots(
    make_model: ModelMaker, beam: int, copy: bool
) -> None:
    model = make_model(seed=3, copy=copy)
    config = DecodeConfig(preset="paper", beam=beam, max_words=4)
    predictor = predictor_of(model)
    for context, result in zip(CONTEXTS, search(model, CONTEXTS, config), strict=True):
        expected = textbook_beam(predictor, context, beam, 4)
        shown = [(text, total) for text, total in expected if text not in context]
        assert [query.text for query in result] == [text for text, _ in shown]
        assert [query.log_likelihood for query in result] == pytest.approx(
            [total for _, total in shown], abs=1e-4
        )


def test_a_preset_changes_defaults_only() -> None:
    paper = DecodeConfig(preset="paper")
    assert (paper.specificity, paper.known, paper.quality) == (0.0, "free", False)
    assert DecodeConfig(preset="paper", known="only").known == "only"
    changed = override(DecodeConfig(beam=30, specificity=0.5), {"known": "only"}, ["preset=paper"])
    assert (changed.beam, changed.specificity, changed.known) == (30, 0.0, "only")
    assert override(paper, {"beam": 20}).finished_in_beam


TWO_CONTEXTS = [["w1 w2", "w3 zebra"], ["w7"]]


def steps_of(make_model: ModelMaker, config: DecodeConfig) -> ArraySteps:
    predictor = predictor_of(make_model(seed=2, copy=True), compiled=False)
    return ArraySteps(predictor.decoder("exact"), started(predictor, TWO_CONTEXTS), config, None)


def test_every_step_is_a_word_longer_until_the_longest(make_model: ModelMaker) -> None:
    steps = steps_of(make_model, DecodeConfig(beam=30, max_words=3))
    lengths = []
    while (ended := steps.next([-np.inf] * 2)) is not None:
        lengths.append({len(words) for _, words, _ in ended})
    assert len(lengths) == 4
    assert lengths[0] == set()  # fewer than one word
    assert lengths[1:] == [{1}, {2}, {3}]


def test_prefixes_below_the_bound_never_end(make_model: ModelMaker) -> None:
    config = DecodeConfig(beam=30, max_words=3)
    free, bounded = steps_of(make_model, config), steps_of(make_model, config)
    seen = 0
    while (ended := free.next([-np.inf] * 2)) is not None:
        allowed = [item for item in ended if item.context == 1]
        result = list(bounded.next([np.inf, -np.inf]) or ())
        if seen:
            assert [item.words for item in result] == [item.words for item in allowed]
        seen += 1
    assert seen == 4
    assert bounded.next([np.inf, -np.inf]) is None


GUARDED = [["w1 w2 zebra", "w1 gnu"], [], ["w5 w6 w5 w7 yak w8"], ["w9"]]
WORDS = [f"w{number}" for number in range(150)] + ["zebra", "gnu", "yak"]


def some_pairs(share: float, seed: int) -> np.ndarray:
    keys = text_keys(WORDS, b"")
    chosen = np.random.default_rng(seed).random((len(keys), len(keys))) < share
    return np.sort(pair_keys(keys[:, None], keys[None, :])[chosen])


TABLES = Tables(
    min_users=2, common_pairs=some_pairs(0.1, 1), rare_pairs=RareSet.build(some_pairs(0.4, 2))
)
"""Some pairs are common, many rare."""


def extended(make_model: ModelMaker, *, compiled: bool, seen: bool) -> list[Extensions]:
    """The first word of each context, and the next of four prefixes of each."""
    predictor = predictor_of(make_model(words=150, copy=True), Guard(TABLES), compiled=compiled)
    start = started(predictor, GUARDED, "fast", seen=seen)
    longer, decoder = with_words(predictor, start, "fast"), predictor.decoder("fast")
    return [
        allowed_extensions(decoder.predict(state), live, DecodeConfig(beam=12), rules)
        for rules, state, live in (start, longer)
    ]


@pytest.mark.parametrize("seen", [False, True])
def test_the_beam_bounds_the_extensions(make_model: ModelMaker, compiled: bool, seen: bool) -> None:
    for extensions in extended(make_model, compiled=compiled, seen=seen):
        for context in range(4):
            words = extensions.words[extensions.first[context] : extensions.first[context + 1]]
            unfinished = np.flatnonzero(words != END_OF_QUERY)
            assert 0 < len(unfinished) <= 12
            if len(unfinished) == 12:
                assert unfinished[-1] == len(words) - 1


def test_probabilities_are_shaped_by_hand() -> None:
    scores = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    assert shape(scores, DecodeConfig()) == pytest.approx([0.5, 0.3, 0.15, 0.05])
    assert shape(scores, DecodeConfig(top_k=2)) == pytest.approx([0.625, 0.375, 0, 0])
    assert shape(scores, DecodeConfig(top_p=0.7)) == pytest.approx([0.625, 0.375, 0, 0])
    cold = shape(scores, DecodeConfig(temperature=0.5))
    assert cold == pytest.approx(np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365)


def test_samples_follow_the_seed_and_the_likelihood(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2"])

    def draw(seed: int) -> list[str]:
        config = DecodeConfig(strategy="sample", beam=12, max_words=3, seed=seed, specificity=0.0)
        [drawn] = predictor.suggest_many([state], 12, config)
        assert_scored(predictor, [state], [drawn])
        return texts(drawn)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert 1 < len(draw(1)) <= 12


def test_sampling_one_word_is_greedy(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2"])
    config = DecodeConfig(strategy="sample", beam=3, top_k=1, max_words=4)
    assert len({item.text for item in predictor.suggest_many([state], 3, config)[0]}) <= 1


CANCELLED = DecodeConfig(beam=5, max_words=4, fold=False, specificity=0.0)
SAMPLED = CANCELLED.model_copy(update={"strategy": "sample"})
ASKED: dict[str, Callable[[Predictor, Any], object]] = {
    "beam": lambda predictor, state: predictor.suggest_many([state], 5, CANCELLED),
    "sampling": lambda predictor, state: predictor.suggest_many([state], 5, SAMPLED),
    "completion": lambda predictor, state: predictor.complete(state, "w1", 5, CANCELLED),
    "rescoring": lambda predictor, state: predictor.score_many([state], [["w1 w2", "w3"]]),
}


@pytest.mark.parametrize("way", ASKED)
def test_work_is_cancelled_before_the_next_step(make_model: ModelMaker, way: str) -> None:
    predictor = predictor_of(make_model(copy=True))
    state = predictor.encoder.encode(["w1 w2"])
    looks: list[int] = []

    def unwanted() -> bool:
        looks.append(1)
        return len(looks) == 2

    expected = ASKED[way](predictor, state)
    with cancel_when(unwanted), pytest.raises(DecodingCancelledError):
        ASKED[way](predictor, state)
    assert len(looks) == 2
    assert ASKED[way](predictor, state) == expected


def test_nested_blocks_restore_the_outer_condition() -> None:
    with cancel_when(lambda: False):
        with cancel_when(lambda: True), pytest.raises(DecodingCancelledError):
            raise_if_cancelled()
        raise_if_cancelled()
    raise_if_cancelled()

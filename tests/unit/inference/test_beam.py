"""Beam search against greedy decoding, against all queries there are, and against itself."""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextBatch
from nextquery.inference.predictor import Predictor
from nextquery.inference.rules import VocabularyRules
from nextquery.inference.search import BeamSearch, FinishedQuery
from nextquery.inference.settings import DecodeConfig, Mode, override
from nextquery.model.hred import HRED
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN

from .conftest import FORMS, ModelMaker, predictor_of

CONTEXTS = [["w1 w2", "w3 zebra"], [], ["w7"], ["w1 w2", "w5 w6", "yak w8"]]


def search(
    model: HRED, contexts: Sequence[Sequence[str]], config: DecodeConfig
) -> list[list[FinishedQuery]]:
    predictor = predictor_of(model)
    states = predictor.encoder.encode_many(contexts)
    batch = ContextBatch(predictor.model.vocabulary, states)
    rules = VocabularyRules(Guard(), model.vocabulary)
    each = [
        rules.for_context(s.queries, own) for s, own in zip(states, batch.vocabularies, strict=True)
    ]
    return BeamSearch(predictor.decoder("exact"), config).search(batch, each)


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


@pytest.mark.parametrize("context", CONTEXTS)
def test_beam_one_is_greedy(any_model: HRED, context: Sequence[str]) -> None:
    found = search(any_model, [context], DecodeConfig(specificity=0.0, beam=1, max_words=6))[0]
    expected = greedy(predictor_of(any_model), context, 6)
    assert [each.text for each in found][:1] == [" ".join(expected)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length_normalised", [False, True])
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
        each.text: each.log_likelihood / (each.words if length_normalised else 1) for each in scored
    }
    expected = sorted(every, key=lambda text: -value[text])[:20]
    config = DecodeConfig(
        specificity=0.0, beam=1000, max_words=3, length_normalised=length_normalised
    )
    found = search(model, [context], config)[0]
    assert len(found) == len(every)
    assert [each.text for each in found[:20]] == expected
    for each in found[:20]:
        assert each.value(length_normalised) == pytest.approx(value[each.text], abs=1e-4)


@pytest.mark.parametrize(("mode", "within"), [("exact", 1e-4), ("fast", 0.05)])
def test_scores_are_those_of_rescoring(any_predictor: Predictor, mode: Mode, within: float) -> None:
    states = any_predictor.encoder.encode_many(CONTEXTS)
    lists = any_predictor.suggest_many(
        states, 8, DecodeConfig(specificity=0.0, beam=12, max_words=5, mode=mode)
    )
    scored = any_predictor.score_many(states, [[each.text for each in one] for one in lists])
    assert sum(map(len, lists)) > 12
    for suggestions, scores in zip(lists, scored, strict=True):
        for suggestion, score in zip(suggestions, scores, strict=True):
            assert suggestion.score == pytest.approx(score.log_likelihood, abs=within)


def test_contexts_together_equal_contexts_alone(any_predictor: Predictor) -> None:
    states = any_predictor.encoder.encode_many(CONTEXTS)
    config = DecodeConfig(specificity=0.0, beam=7, max_words=5)
    together = any_predictor.suggest_many(states, 7, config)
    for state, suggestions in zip(states, together, strict=True):
        alone = any_predictor.suggest_many([state], 7, config)[0]
        assert [each.text for each in alone] == [each.text for each in suggestions]


def test_threads_that_ask_at_once_get_what_one_gets(predictor: Predictor) -> None:
    states = predictor.encoder.encode_many(CONTEXTS)
    config = DecodeConfig(specificity=0.0, beam=7, max_words=5)
    expected = predictor.suggest_many(states, 7, config)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: predictor.suggest_many(states, 7, config), range(12)))
    assert found == [expected] * 12


def test_lengths_are_held(model: HRED) -> None:
    for found in search(
        model, CONTEXTS, DecodeConfig(specificity=0.0, beam=10, min_words=2, max_words=3)
    ):
        assert found
        assert {len(each.text.split()) for each in found} <= {2, 3}


def test_no_unknown_word_and_no_query_of_the_session(predictor: Predictor) -> None:
    state = predictor.encoder.start()
    config = DecodeConfig(specificity=0.0, beam=20, max_words=3)
    first = predictor.suggest_many([state], 3, config)[0]
    assert all("<" not in each.text for each in first)
    again = predictor.encoder.extend(state, first[0].text.upper())
    later = predictor.suggest_many([again], 20, config)[0]
    assert first[0].text not in [each.text for each in later]


def test_only_a_copying_model_brings_back_words_outside_the_vocabulary(
    make_model: ModelMaker,
) -> None:
    for copying in (False, True):
        found = search(
            make_model(copy=copying),
            [["zebra"]],
            DecodeConfig(specificity=0.0, beam=40, max_words=2),
        )[0]
        assert any("zebra" in each.text.split() for each in found) == copying


@pytest.mark.parametrize("fold", [True, False])
def test_stopping_early_changes_no_list(any_predictor: Predictor, fold: bool) -> None:
    """A search that stops when the first n are sure gives the first n of the whole search."""
    states = any_predictor.encoder.encode_many(CONTEXTS)
    config = DecodeConfig(specificity=0.0, known="free", beam=12, max_words=5, fold=fold)
    whole = any_predictor.suggest_many(states, 12, config)
    for n in (1, 3, 8):
        few = any_predictor.suggest_many(states, n, config)
        assert [[each.text for each in some] for some in few] == [
            [each.text for each in some[:n]] for some in whole
        ]


def textbook_beam(
    predictor: Predictor, context: Sequence[str], beam: int, most: int
) -> list[tuple[str, float]]:
    """Beam search as textbooks have it: finished queries keep their places among the best."""
    batch = ContextBatch(predictor.model.vocabulary, [predictor.encoder.encode(context)])
    own = batch.vocabularies[0]
    decoder = predictor.decoder("exact")
    ids = list(range(1, len(predictor.model.vocabulary.words) + len(own.outside)))
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
        pool = [each for each in best if each[2]]
        for total, words, finished in best:
            if not finished:
                for word, score in following(words).items():
                    ends = word == END_OF_QUERY
                    pool.append((total + score, words if ends else (*words, word), ends))
        best = sorted(pool, key=lambda each: -each[0])[:beam]
    return [(" ".join(map(own.word, words)), total) for total, words, _ in best]


@pytest.mark.parametrize("beam", [1, 3, 8])
@pytest.mark.parametrize("copy", [False, True])
def test_finished_queries_may_keep_their_places(
    make_model: ModelMaker, beam: int, copy: bool
) -> None:
    model = make_model(seed=3, copy=copy)
    config = DecodeConfig(preset="paper", beam=beam, max_words=4)
    predictor = predictor_of(model)
    for context, found in zip(CONTEXTS, search(model, CONTEXTS, config), strict=True):
        expected = textbook_beam(predictor, context, beam, 4)
        shown = [(text, total) for text, total in expected if text not in context]
        assert [query.text for query in found] == [text for text, _ in shown]
        assert [query.log_likelihood for query in found] == pytest.approx(
            [total for _, total in shown], abs=1e-4
        )


def test_a_preset_changes_defaults_only() -> None:
    paper = DecodeConfig(preset="paper")
    assert (paper.specificity, paper.known, paper.quality) == (0.0, "free", False)
    assert DecodeConfig(preset="paper", known="only").known == "only"
    changed = override(DecodeConfig(beam=30, specificity=0.5), {"known": "only"}, ["preset=paper"])
    assert (changed.beam, changed.specificity, changed.known) == (30, 0.0, "only")
    assert override(paper, {"beam": 20}).finished_in_beam

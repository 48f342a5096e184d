"""Scores against a word-by-word computation with the model's own steps."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from nextquery.inference import rescoring
from nextquery.inference.context import ContextBatch
from nextquery.inference.predictor import Predictor
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood
from nextquery.records import Session
from nextquery.text.batching import build_batch
from nextquery.text.corpus import SessionLimits, encode_sessions
from nextquery.text.vocabulary import PADDING

from .conftest import FORMS, ModelMaker, predictor_of

CANDIDATES = ["w1", "w1 w2", "w1 w2 w3", "w9 unheard w4", "", "W1  W2!"]


@torch.inference_mode()
def by_hand(model: HRED, context: list[str], candidate: str) -> float:
    """Eq. 6 by the steps of a model without copying."""
    state = model.start_session()
    for query in context:
        ids = torch.tensor([model.vocabulary.encode(query)])
        vector, _ = model.encode_queries(ids, torch.tensor([ids.shape[1]]))
        state, _ = model.extend_session(state, vector)
    session = model.session_inputs(state)
    hidden, last, total = model.start_decoder(state, session), None, 0.0
    for word in model.vocabulary.encode(candidate.lower().replace("!", "")):
        logits = model.word_scores(model.output_vector(hidden, last, session))
        logits[:, PADDING] = -torch.inf
        total += float(logits.log_softmax(dim=1)[0, word])
        last = torch.tensor([word])
        hidden = model.advance_decoder(hidden, last, session)
    return total


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"factored": False},
        {"zero_step": True, "start_query": True},
        {"tied": True},
        {"decoder_context": "output", "output_bias": True},
        {"decoder_context": "all", "gru_biases": True},
        {"decoder_context": "all", "zero_step": True, "output_bias": True},
    ],
    ids=["paper", "unfactored", "authors", "tied", "output", "all", "all-authors"],
)
def test_scores_equal_the_models_own_steps(
    make_model: ModelMaker, settings: dict[str, bool | str]
) -> None:
    model = make_model(**settings)
    predictor = predictor_of(model)
    contexts: list[list[str]] = [["w3 w4", "w5"], []]
    states = predictor.encoder.encode_many(contexts)
    for context, row in zip(contexts, predictor.score_many(states, [CANDIDATES] * 2), strict=True):
        for candidate, scored in zip(CANDIDATES, row, strict=True):
            expected = by_hand(model, context, candidate)
            assert scored.log_likelihood == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_scores_equal_the_likelihood_of_training(
    make_model: ModelMaker, tmp_path: Path, form: str
) -> None:
    """Copied words outside the vocabulary included."""
    model = make_model(**FORMS[form])
    sessions = [("w3 w4", "w5 zebra", "w9"), ("w1 zebra", "zebra w2"), ("yak w7",)]
    likelihood = SessionLikelihood(model, chunk=5).eval()
    predictor = predictor_of(model)
    for number, session in enumerate(sessions):
        records = [Session(number, "user", session)]
        limits = SessionLimits(queries=9, words=9)
        corpus = encode_sessions(
            records,
            model.vocabulary,
            limits,
            tmp_path / str(number),
            ngram_buckets=getattr(model.config, "character_ngrams", 0),
        )
        with torch.no_grad():
            expected = float(likelihood(build_batch(corpus, np.arange(1)))[0])
        states = predictor.encoder.encode_many([session[:n] for n in range(len(session))])
        scored = predictor.score_many(states, [[query] for query in session])
        result = math.fsum(item.log_likelihood for row in scored for item in row)
        assert result == pytest.approx(expected, abs=1e-4)


def test_words_are_counted_and_unknown_ones_flagged(predictor: Predictor) -> None:
    scored = predictor.score_many([predictor.encoder.start()], [CANDIDATES])[0]
    assert [item.text for item in scored] == CANDIDATES
    assert [item.words for item in scored] == [2, 3, 4, 4, 1, 3]
    assert [item.unknown for item in scored] == [(), (), (), ("unheard",), (), ()]


def test_with_copying_a_word_of_the_session_is_not_unknown(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(copy=True))
    state = predictor.encoder.encode(["unheard w1"])
    scored = predictor.score_many([state], [["unheard", "unseen"]])[0]
    assert [item.unknown for item in scored] == [(), ("unseen",)]


def test_probabilities_of_one_word_sum_to_one_with_copying(make_model: ModelMaker) -> None:
    """All first words, those of the session outside the vocabulary included."""
    model = make_model(words=30, copy=True)
    predictor = predictor_of(model)
    state = predictor.encoder.encode(["w1 zebra", "yak w2"])
    batch = ContextBatch(predictor.model.vocabulary, [state])
    decoder = predictor.decoder("exact")
    ids = [
        *range(1, len(model.vocabulary)),
        *(batch.vocabularies[0].id(word) for word in ("zebra", "yak")),
    ]
    scores = decoder.predict(decoder.start(batch)).of(np.array([ids]))
    assert math.fsum(np.exp(scores[0]).tolist()) == pytest.approx(1.0, abs=1e-5)


def test_many_contexts_at_once_score_as_each_alone(
    make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contexts without candidates, candidates twice, words of one session, parts of a level."""
    predictor = predictor_of(make_model(copy=True))
    contexts = [["unheard w1"], [], ["w3 w4", "unheard w5"], ["w6"]]
    candidates = [
        ["unheard", "w1 w2", "w1 w2 w3"],
        [],
        ["w1 w2", "unheard w1", "w1 w2"],
        ["", "w9"],
    ]
    states = predictor.encoder.encode_many(contexts)
    together = predictor.score_many(states, candidates)
    # One prefix at a time.
    monkeypatch.setattr(rescoring, "MOST_LOGITS", 1)
    in_parts = predictor.score_many(states, candidates)
    for state, texts, row, parts in zip(states, candidates, together, in_parts, strict=True):
        alone = predictor.score_many([state], [texts])[0]
        assert [(item.text, item.unknown) for item in row] == [
            (item.text, item.unknown) for item in alone
        ]
        expected = pytest.approx([item.log_likelihood for item in alone], abs=1e-5)
        assert [item.log_likelihood for item in row] == expected
        assert [item.log_likelihood for item in parts] == expected


def test_no_candidates_give_no_scores(predictor: Predictor) -> None:
    assert predictor.score_many([], []) == []
    assert predictor.score_many([predictor.encoder.start()], [[]]) == [[]]

"""Engines over real model folders."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nextquery import load
from nextquery.errors import ArtifactError
from nextquery.service.models.engine import StatefulEngine, open_engine
from nextquery.service.models.questions import (
    CompleteQuestion,
    ExplainQuestion,
    ScoreQuestion,
    SuggestOptions,
    SuggestQuestion,
    WhyQuestion,
)
from nextquery.suggesters.diagnosis import why
from nextquery.suggesters.neural import HREDSuggester

SESSION = ("red shoes", "paris", "rome")


@pytest.fixture
def hred(served_models: dict[str, Path]) -> StatefulEngine:
    engine = open_engine(served_models["hred"], None, 100)
    assert isinstance(engine, StatefulEngine)
    engine.states_found = engine.states_missed = 0
    return engine


def test_a_session_that_grows_gives_what_the_whole_context_gives(
    hred: StatefulEngine, served_models: dict[str, Path]
) -> None:
    suggester = load(served_models["hred"])
    for length in range(1, 4):
        [found] = hred.suggest([SESSION[:length]], SuggestOptions(5))
        expected = suggester.suggest(SESSION[:length], 5)
        assert [item.text for item in found] == [item.text for item in expected]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
    assert (hred.states_found, hred.states_missed) == (2, 1)


def test_a_known_beginning_is_used_however_far_back(hred: StatefulEngine) -> None:
    hred.suggest([SESSION[:1]], SuggestOptions(5))
    hred.suggest([SESSION], SuggestOptions(5))
    assert (hred.states_found, hred.states_missed) == (1, 1)


def test_a_batch_gives_what_single_contexts_give(hred: StatefulEngine) -> None:
    contexts = [SESSION[:1], SESSION, (), ("never seen",)]
    together = hred.suggest(contexts, SuggestOptions(4))
    alone = [hred.suggest([context], SuggestOptions(4))[0] for context in contexts]
    assert [[item.text for item in found] for found in together] == [
        [item.text for item in found] for found in alone
    ]


def test_states_are_bounded(served_models: dict[str, Path]) -> None:
    engine = open_engine(served_models["hred"], None, 3)
    assert isinstance(engine, StatefulEngine)
    for number in range(10):
        engine.suggest([(f"query {number}",)], SuggestOptions(1))
    assert engine.states_kept == 3


def test_an_altered_file_is_refused_before_it_is_used(
    served_models: dict[str, Path], altered: Callable[[Path, str], Path]
) -> None:
    with pytest.raises(ArtifactError, match="altered or truncated"):
        open_engine(altered(served_models["adjacency"], "query_counts.npy"), None, 10)


def test_every_question_reaches_what_the_model_can_do(
    hred: StatefulEngine, served_models: dict[str, Path]
) -> None:
    model = load(served_models["hred"])
    assert isinstance(model, HREDSuggester)
    options = SuggestOptions(3, diversity=0.9)
    diverse = model.suggest(SESSION, 3, config=model.config.model_copy(update={"diversity": 0.9}))
    [found] = hred.answer([SuggestQuestion(SESSION, options)])
    assert [item.text for item in found] == [item.text for item in diverse]
    assert hred.answer([CompleteQuestion(SESSION, "pa", 2)]) == [model.complete(SESSION, "pa", 2)]
    candidates = ("paris hotels", "rome")
    assert hred.answer([ScoreQuestion(SESSION, candidates)]) == [model.score(SESSION, candidates)]
    assert hred.answer([ExplainQuestion(SESSION)]) == [model.explain(SESSION)]
    assert hred.answer([WhyQuestion(SESSION, "rome")]) == [why(model, "rome", SESSION)]


def test_what_a_model_cannot_do_is_no_answer(served_models: dict[str, Path]) -> None:
    engine = open_engine(served_models["adjacency"], None, 10)
    assert not engine.explains
    with pytest.raises(TypeError, match="adjacency cannot answer a ExplainQuestion"):
        engine.answer([ExplainQuestion(SESSION)])

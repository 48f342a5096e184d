"""Engines over real model folders."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nextquery import load
from nextquery.errors import ArtifactError
from nextquery.service.engine import (
    CompleteQuestion,
    ExplainQuestion,
    ScoreQuestion,
    StatefulEngine,
    SuggestQuestion,
    WhyQuestion,
    open_engine,
)
from nextquery.suggesters.asking import SuggestOptions
from nextquery.suggesters.diagnosis import why
from nextquery.suggesters.neural import HREDSuggester

SESSION = ("red shoes", "paris", "rome")


@pytest.fixture
def hred(served_models: dict[str, Path]) -> StatefulEngine:
    engine = open_engine(served_models["hred"], None)
    assert isinstance(engine, StatefulEngine)
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


def test_a_batch_gives_what_single_contexts_give(hred: StatefulEngine) -> None:
    contexts = [SESSION[:1], SESSION, (), ("never seen",)]
    together = hred.suggest(contexts, SuggestOptions(4))
    alone = [hred.suggest([context], SuggestOptions(4))[0] for context in contexts]
    assert [[item.text for item in found] for found in together] == [
        [item.text for item in found] for found in alone
    ]


def test_an_altered_file_is_refused_before_it_is_used(
    served_models: dict[str, Path], altered: Callable[[Path, str], Path]
) -> None:
    with pytest.raises(ArtifactError, match="altered or truncated"):
        open_engine(altered(served_models["adjacency"], "query_counts.npy"), None)


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
    engine = open_engine(served_models["adjacency"], None)
    assert not engine.explains
    with pytest.raises(TypeError, match="adjacency cannot answer a ExplainQuestion"):
        engine.answer([ExplainQuestion(SESSION)])

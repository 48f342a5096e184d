"""Engines over real model folders."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nextquery import load
from nextquery.errors import ArtifactError
from nextquery.service.models.engine import NeuralEngine, open_engine

SESSION = ("red shoes", "paris", "rome")


@pytest.fixture
def hred(served_models: dict[str, Path]) -> NeuralEngine:
    engine = open_engine(served_models["hred"], None, 100)
    assert isinstance(engine, NeuralEngine)
    engine.states_found = engine.states_missed = 0
    return engine


def test_a_session_that_grows_gives_what_the_whole_context_gives(
    hred: NeuralEngine, served_models: dict[str, Path]
) -> None:
    suggester = load(served_models["hred"])
    for length in range(1, 4):
        [found] = hred.suggest([SESSION[:length]], 5, 0.0)
        expected = suggester.suggest(SESSION[:length], 5)
        assert [item.text for item in found] == [item.text for item in expected]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
    assert (hred.states_found, hred.states_missed) == (2, 1)


def test_a_known_beginning_is_used_however_far_back(hred: NeuralEngine) -> None:
    hred.suggest([SESSION[:1]], 5, 0.0)
    hred.suggest([SESSION], 5, 0.0)
    assert (hred.states_found, hred.states_missed) == (1, 1)


def test_a_batch_gives_what_single_contexts_give(hred: NeuralEngine) -> None:
    contexts = [SESSION[:1], SESSION, (), ("never seen",)]
    together = hred.suggest(contexts, 4, 0.0)
    alone = [hred.suggest([context], 4, 0.0)[0] for context in contexts]
    assert [[item.text for item in found] for found in together] == [
        [item.text for item in found] for found in alone
    ]


def test_states_are_bounded(served_models: dict[str, Path]) -> None:
    engine = open_engine(served_models["hred"], None, 3)
    assert isinstance(engine, NeuralEngine)
    for number in range(10):
        engine.suggest([(f"query {number}",)], 1, 0.0)
    assert engine.states_kept == 3


def test_an_altered_file_is_refused_before_it_is_used(
    served_models: dict[str, Path], altered: Callable[[Path, str], Path]
) -> None:
    with pytest.raises(ArtifactError, match="altered or truncated"):
        open_engine(altered(served_models["adjacency"], "query_counts.npy"), None, 10)

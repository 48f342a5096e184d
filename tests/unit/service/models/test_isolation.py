"""A model in a process of its own, over real model folders."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import ArtifactError
from nextquery.records import Suggestion
from nextquery.service.models.engine import Engine, LocalEngine, open_engine
from nextquery.service.models.isolation import IsolatedEngine, ModelFailedError, open_apart
from nextquery.service.models.questions import (
    CompleteQuestion,
    ExplainQuestion,
    Question,
    ScoreQuestion,
    SuggestOptions,
    SuggestQuestion,
)

SESSION = ("red shoes", "paris")


def lists(engine: Engine, *contexts: tuple[str, ...], n: int) -> list[list[Suggestion]]:
    return engine.answer([SuggestQuestion(context, SuggestOptions(n)) for context in contexts])


@pytest.fixture
def apart(served_models: dict[str, Path]) -> Iterator[IsolatedEngine]:
    engine = open_apart(served_models["hred"], None, 100)
    assert isinstance(engine, IsolatedEngine)
    yield engine
    engine.close()


def test_it_answers_as_in_this_process(
    apart: IsolatedEngine, served_models: dict[str, Path]
) -> None:
    here = open_engine(served_models["hred"], None, 100)
    assert (apart.kind, apart.version, apart.explains) == (here.kind, here.version, True)
    ours, theirs = lists(apart, SESSION, (), n=4), lists(here, SESSION, (), n=4)
    assert [[item.text for item in found] for found in ours] == [
        [item.text for item in found] for found in theirs
    ]
    for question in (
        ScoreQuestion(SESSION, ("paris hotels",)),
        ExplainQuestion(SESSION),
        CompleteQuestion(SESSION, "pa", 3),
    ):
        asked: list[Question[Any]] = [question]
        assert apart.answer(asked) == here.answer(asked)
    assert apart.blocked() == here.blocked()
    assert apart.states_missed > 0


def test_a_model_that_is_killed_is_started_again(apart: IsolatedEngine) -> None:
    expected, first = lists(apart, SESSION, n=3), apart.process_id
    os.kill(first, signal.SIGKILL)
    assert lists(apart, SESSION, n=3) == expected
    assert apart.process_id != first


def test_only_the_loading_of_a_replacement_gives_way(served_models: dict[str, Path]) -> None:
    engine = open_apart(served_models["hred"], None, 100, low_priority=True)
    assert isinstance(engine, IsolatedEngine)
    assert len(lists(engine, SESSION, n=3)[0]) == 3
    assert os.getpriority(os.PRIO_PROCESS, engine.process_id) == os.getpriority(os.PRIO_PROCESS, 0)
    engine.close()


def test_an_unexpected_error_says_where_but_quotes_nothing(apart: IsolatedEngine) -> None:
    with pytest.raises(ModelFailedError) as failed:
        lists(apart, (3,), n=3)  # type: ignore[arg-type]
    assert any("engine.py" in place for place in failed.value.args)
    assert lists(apart, SESSION, n=3)


def test_a_changed_blocklist_acts_on_the_next_list(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    blocklist = tmp_path / "blocked.txt"
    blocklist.write_text("nothing\n")
    engine = open_apart(served_models["hred"], blocklist, 100)
    word = lists(engine, SESSION, n=1)[0][0].text.split()[0]
    blocklist.write_text(f"nothing\n{word}\n")
    found = lists(engine, SESSION, n=5)[0]
    assert found
    assert not any(word in item.text.split() for item in found)
    engine.close()


def test_a_bad_folder_is_refused_with_its_own_error(
    served_models: dict[str, Path], altered: Callable[[Path, str], Path]
) -> None:
    with pytest.raises(ArtifactError, match="altered or truncated"):
        open_apart(altered(served_models["hred"], "model.safetensors"), None, 10)


def test_look_ups_stay_in_this_process(served_models: dict[str, Path]) -> None:
    assert isinstance(open_apart(served_models["adjacency"], None, 10), LocalEngine)


def test_closing_ends_the_process(apart: IsolatedEngine) -> None:
    apart.close()
    with pytest.raises(ProcessLookupError):
        os.kill(apart.process_id, 0)


def test_the_service_itself_needs_no_torch() -> None:
    code = "import nextquery.service.app, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

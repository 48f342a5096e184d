"""A model in a process of its own, over real model folders."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import ArtifactError
from nextquery.inference.decoder import DecodingCancelledError
from nextquery.records import Suggestion
from nextquery.service.engine import (
    CompleteQuestion,
    Engine,
    ExplainQuestion,
    Facts,
    Question,
    ScoreQuestion,
    SuggestQuestion,
    open_engine,
)
from nextquery.service.worker import (
    SECONDS_TO_END,
    Batch,
    IsolatedEngine,
    ModelEndedError,
    ModelFailedError,
    ModelLateError,
    Opening,
)
from nextquery.suggesters.base import SuggestOptions

from .conftest import wait_until

pytestmark = pytest.mark.slow
SESSION = ("red shoes", "paris")


def lists(engine: Engine, *contexts: tuple[str, ...], n: int) -> list[list[Suggestion]]:
    return engine.answer([SuggestQuestion(context, SuggestOptions(n)) for context in contexts])


@pytest.fixture(scope="module")
def apart(
    request: pytest.FixtureRequest, served_models: dict[str, Path]
) -> Iterator[IsolatedEngine]:
    """A model for all tests that leave it able to answer."""
    engine = started(served_models[getattr(request, "param", "hred")])
    yield engine
    engine.close()


def started(folder: Path, blocklist: Path | None = None, **options: bool) -> IsolatedEngine:
    engine = IsolatedEngine(Opening(folder, blocklist))
    engine.start(**options)
    return engine


@pytest.mark.parametrize("apart", ["hred", "transformer"], indirect=True)
def test_it_answers_as_in_this_process(
    apart: IsolatedEngine, served_models: dict[str, Path]
) -> None:
    here = open_engine(served_models[apart.facts.kind], None)
    assert apart.facts == here.facts
    assert apart.facts.explains
    ours, theirs = lists(apart, SESSION, (), n=4), lists(here, SESSION, (), n=4)
    assert [[item.text for item in result] for result in ours] == [
        [item.text for item in result] for result in theirs
    ]
    for question in (
        ScoreQuestion(SESSION, ("paris hotels",)),
        ExplainQuestion(SESSION),
        CompleteQuestion(SESSION, "pa", 3),
    ):
        asked: list[Question[Any]] = [question]
        assert apart.answer(asked) == here.answer(asked)
    assert apart.blocked() == here.blocked()


def test_a_model_that_is_killed_is_started_again(apart: IsolatedEngine) -> None:
    expected, first = lists(apart, SESSION, n=3), apart.process_id
    os.kill(first, signal.SIGKILL)
    assert lists(apart, SESSION, n=3) == expected
    assert apart.process_id != first


def test_only_the_loading_of_a_replacement_gives_way(served_models: dict[str, Path]) -> None:
    engine = started(served_models["hred"], low_priority=True)
    assert len(lists(engine, SESSION, n=3)[0]) == 3
    assert os.getpriority(os.PRIO_PROCESS, engine.process_id) == os.getpriority(os.PRIO_PROCESS, 0)
    engine.close()


def test_an_unexpected_error_says_where_but_quotes_nothing(apart: IsolatedEngine) -> None:
    with pytest.raises(ModelFailedError) as failed:
        lists(apart, (3,), n=3)  # type: ignore[arg-type]
    assert any("engine.py" in position for position in failed.value.args)
    assert lists(apart, SESSION, n=3)


def test_a_changed_blocklist_is_taken_and_said(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    blocklist = tmp_path / "blocked.txt"
    blocklist.write_text("nothing\n")
    engine = started(served_models["hred"], blocklist)
    word = lists(engine, SESSION, n=1)[0][0].text.split()[0]
    blocklist.write_text(f"nothing\n{word}\n")

    def new_list_is_used() -> bool:
        engine.check()
        return engine.blocklist.generation == 1

    wait_until(new_list_is_used)
    result = lists(engine, SESSION, n=5)[0]
    assert result
    assert not any(word in item.text.split() for item in result)
    engine.close()


def test_a_bad_folder_is_refused_with_its_own_error(
    served_models: dict[str, Path], altered: Callable[[Path, str], Path]
) -> None:
    folder = altered(served_models["hred"], "model.safetensors")
    with pytest.raises(ArtifactError, match=rf"{folder}.*altered or truncated"):
        started(folder)


def test_a_model_that_died_idle_is_started_again_by_the_next_check(apart: IsolatedEngine) -> None:
    first, restarts = apart.process_id, apart.restarts
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: apart._process is not None and apart._process.poll() is not None)
    apart.check()
    assert apart.process_id != first
    assert apart.restarts == restarts + 1
    assert apart.available


def test_a_stopped_model_is_seen_and_killing_it_tells_who_waits(apart: IsolatedEngine) -> None:
    first = apart.process_id
    os.kill(first, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as asking:
        answer = asking.submit(lists, apart, SESSION, n=3)
        wait_until(lambda: apart.silent_for > 0.2)
        apart.kill()
        with pytest.raises(ModelLateError):
            answer.result(120)
    assert apart.silent_for == 0.0
    assert lists(apart, SESSION, n=3)[0], "the next batch is answered by another process"
    assert apart.process_id != first


def test_closing_ends_the_process_even_if_it_is_stopped(served_models: dict[str, Path]) -> None:
    for stop in (False, True):
        engine = started(served_models["adjacency"])
        if stop:
            os.kill(engine.process_id, signal.SIGSTOP)
        begin = time.monotonic()
        engine.close()
        assert time.monotonic() - begin < 20 * SECONDS_TO_END, "a stopped one would never end"
        with pytest.raises(ProcessLookupError):
            os.kill(engine.process_id, 0)


def test_closing_ends_a_load_that_nobody_waits_for(served_models: dict[str, Path]) -> None:
    engine = IsolatedEngine(Opening(served_models["hred"], None))
    with ThreadPoolExecutor(1) as loading:
        loaded = loading.submit(engine.start)
        wait_until(lambda: engine._process is not None)
        engine.close()
        with pytest.raises(ModelEndedError):
            loaded.result(120)


def test_a_model_that_cannot_be_started_again_is_not_tried_without_pause(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(served_models["hred"], folder)
    engine = started(folder)
    shutil.rmtree(folder)
    engine.kill()
    with pytest.raises(ModelEndedError, match="no such folder"):
        lists(engine, SESSION, n=3)
    with pytest.raises(ModelEndedError, match="process ended"):
        lists(engine, SESSION, n=3)
    assert engine.restarts == 1
    engine.close()


def test_a_batch_is_cancelled_between_two_steps(apart: IsolatedEngine) -> None:
    expected = lists(apart, SESSION, n=3)
    many = [SuggestQuestion((f"shoes {n}",), SuggestOptions(50)) for n in range(3000)]
    with ThreadPoolExecutor(1) as asking:
        begin = time.process_time()
        answer = asking.submit(apart.answer, many)
        wait_until(lambda: apart.silent_for > 0.2)

        def cancelled() -> bool:
            apart.cancel()  # does nothing while the batch is still being sent
            return answer.done()

        wait_until(cancelled)
        with pytest.raises(DecodingCancelledError):
            answer.result(120)
    assert time.process_time() - begin < 60
    apart.cancel()  # nothing is being computed: nothing is said
    assert lists(apart, SESSION, n=3) == expected


@pytest.mark.parametrize("priority", [[], ["low_priority"]])
def test_it_answers_survives_signals_and_ends_with_its_socket(
    served_models: dict[str, Path], priority: list[str]
) -> None:
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    module = "nextquery.service.model_process"
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(number), *priority], pass_fds=[number]
    )
    theirs.close()
    with Connection(ours.detach()) as connection:
        any_connection: Any = connection
        any_connection.send(Opening(served_models["adjacency"], None))
        assert isinstance(any_connection.recv(), Facts)
        os.kill(process.pid, signal.SIGTERM)  # stopping is decided by the service
        question = SuggestQuestion(("red shoes",), SuggestOptions(n=1))
        any_connection.send(Batch((question,)))
        assert [item.text for item in any_connection.recv().answers[0]] == ["red boots"]
    assert process.wait(120) == 0

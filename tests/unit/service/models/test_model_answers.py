"""What a model's process says to the messages that it gets, here without the process."""

from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import ArtifactError
from nextquery.service.engine import ScoreQuestion, SuggestQuestion
from nextquery.service.worker import (
    Batch,
    Cancel,
    Cancelled,
    Check,
    Facts,
    Failure,
    Opening,
    Reply,
    open_model,
)
from nextquery.suggesters.asking import SuggestOptions


@pytest.fixture
def ends() -> Iterator[tuple[Any, Any]]:
    ours, theirs = Pipe()
    with ours, theirs:
        yield ours, theirs


def test_it_opens_answers_and_counts(ends: tuple[Any, Any], served_models: dict[str, Path]) -> None:
    ours, theirs = ends
    ours.send(Opening(served_models["adjacency"], None))
    answer = open_model(theirs)
    assert answer is not None
    assert ours.recv() == Facts(
        "adjacency",
        ours_version(answer),
        explains=False,
        specificity=0.0,
        judges_usefulness=False,
        min_users=1,
    )
    question = SuggestQuestion(("red shoes",), SuggestOptions(n=1))
    reply = answer(Batch((question,)))
    assert isinstance(reply, Reply)
    assert [[item.text for item in found] for found in reply.answers] == [["red boots"]]
    assert answer(Check()) == Reply([], reply.blocklist, reply.blocked)


def ours_version(answer: Any) -> str:
    version: str = answer.args[0].version
    return version


def test_a_bad_folder_is_named(ends: tuple[Any, Any], tmp_path: Path) -> None:
    ours, theirs = ends
    ours.send(Opening(tmp_path / "none", None))
    assert open_model(theirs) is None
    error = ours.recv()
    assert isinstance(error, ArtifactError)
    assert "none" in str(error)


def test_a_failure_names_places_in_the_code_and_never_quotes(
    ends: tuple[Any, Any], served_models: dict[str, Path]
) -> None:
    ours, theirs = ends
    ours.send(Opening(served_models["adjacency"], None))
    answer = open_model(theirs)
    assert answer is not None
    broken: Any = ScoreQuestion(("secret words",), None)  # type: ignore[arg-type]
    failure = answer(Batch((broken,)))
    assert isinstance(failure, Failure)
    assert failure.error == "TypeError"
    assert failure.places
    assert "secret" not in repr(failure)


@pytest.mark.parametrize("service_is_gone", [False, True])
def test_what_nobody_waits_for_is_given_up(
    ends: tuple[Any, Any], served_models: dict[str, Path], service_is_gone: bool
) -> None:
    ours, theirs = ends
    ours.send(Opening(served_models["hred"], None))
    answer = open_model(theirs)
    assert answer is not None
    ours.recv()
    batch = Batch((SuggestQuestion(("red shoes",), SuggestOptions(n=1)),))
    if service_is_gone:
        ours.close()
    else:
        ours.send(Cancel())
    assert answer(batch) == Cancelled()
    if not service_is_gone:
        assert isinstance(answer(batch), Reply)
        assert answer(Cancel()) is None  # it came too late

"""The process of a model, started and asked as the service does it."""

import os
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from nextquery.service.engine import SuggestQuestion
from nextquery.service.worker import Batch, Facts, Opening
from nextquery.suggesters.asking import SuggestOptions


@pytest.mark.slow
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

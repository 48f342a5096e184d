"""A neural model in a process of its own, so that no flood of requests can slow it down.

In one process the model and the event loop share the interpreter's lock: while the loop refuses
what is too much, every small step of a decoding waits for it, and a list takes seconds instead of
milliseconds. Here the loop has a core for itself, a model that dies is started again, and a
replaced one gives all of its memory back. Knows how to start, ask and end the process.
"""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

from nextquery.errors import NextqueryError
from nextquery.guard.guard import Guard
from nextquery.service.models.engine import Engine, open_engine
from nextquery.service.models.messages import Batch, Facts, Failure, Opening, Reply
from nextquery.service.models.model_process import LOW_PRIORITY
from nextquery.service.models.questions import Answer, Question
from nextquery.service.operation import logging
from nextquery.suggesters.loading import model_kind

SECONDS_TO_END = 5.0


class ModelEndedError(Exception):
    """The model's process ended twice over one question."""


class ModelFailedError(Exception):
    """The model raised an error that was not expected."""


def open_apart(
    path: Path, blocklist: Path | None, cache_size: int, *, low_priority: bool = False
) -> Engine:
    """Open a model folder; a neural one in a process of its own, look-ups in this one.

    `low_priority` is for a replacement: loading it gives way to the model that is still answering.
    """
    if model_kind(path).neural:
        return IsolatedEngine(Opening(path, blocklist, cache_size), low_priority=low_priority)
    return open_engine(path, blocklist, cache_size)


class IsolatedEngine(Engine):
    """An engine in another process; one batch at a time."""

    def __init__(self, opening: Opening, *, low_priority: bool = False) -> None:
        self._opening = opening
        self._lock = threading.Lock()
        self._blocked: Mapping[str, int] = {}
        # Only to notice a changed blocklist: what is shown is decided in the other process.
        self.guard = Guard(blocklist=opening.blocklist)
        self._start(low_priority=low_priority)

    @property
    def process_id(self) -> int:
        """The process that answers."""
        return self._process.pid

    def answer(self, questions: Sequence[Question[Answer]]) -> list[Answer]:
        """Ask the process; if it ends, another is started and asked once more."""
        batch = Batch(tuple(questions))
        with self._lock:
            try:
                return self._exchange(batch)
            except (EOFError, OSError):
                self._start_again()
            try:
                return self._exchange(batch)
            except (EOFError, OSError) as error:
                raise ModelEndedError(
                    "the model's process ended over one question twice"
                ) from error

    def blocked(self) -> Mapping[str, int]:
        """What the process said with its last answer."""
        return self._blocked

    def close(self) -> None:
        """End the process, if need be by force."""
        with self._lock:
            self._connection.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(SECONDS_TO_END)
                return
            self._process.kill()
            self._process.wait()

    def _start(self, *, low_priority: bool = False) -> None:
        # Both ends are this program, and the socket has no name: nobody else's data is unpickled.
        self._connection, other = Pipe()
        with other:
            command = [
                sys.executable,
                "-m",
                "nextquery.service.models.model_process",
                str(other.fileno()),
            ]
            self._process = subprocess.Popen(
                [*command, LOW_PRIORITY] if low_priority else command,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._connection.send(self._opening)
        try:
            facts = self._connection.recv()
        except EOFError:
            raise ModelEndedError("the model's process ended while it loaded the model") from None
        if isinstance(facts, NextqueryError):
            self._process.wait()
            self._connection.close()
            raise facts
        assert isinstance(facts, Facts)
        self.kind, self.version, self.explains = facts.kind, facts.version, facts.explains

    def _exchange(self, batch: Batch) -> list[Any]:
        self._connection.send(batch)
        reply = self._connection.recv()
        if isinstance(reply, NextqueryError):
            raise reply
        if isinstance(reply, Failure):
            raise ModelFailedError(reply.error, *reply.places)
        assert isinstance(reply, Reply)
        self._blocked = reply.blocked
        self.states_found, self.states_missed = reply.states_found, reply.states_missed
        return reply.answers

    def _start_again(self) -> None:
        code = self._process.wait()
        logging.log_event("the model's process ended, starting another", exit_code=code)
        self._connection.close()
        try:
            self._start()
        except NextqueryError as error:
            raise ModelEndedError(str(error)) from error

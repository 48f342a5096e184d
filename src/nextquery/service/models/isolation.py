"""A neural model in a process of its own, so that no flood of requests can slow it down.

In one process the model and the event loop share the interpreter's lock: while the loop refuses
what is too much, every small step of a decoding waits for it, and a list takes seconds instead of
milliseconds. Here the loop has a core for itself, a model that dies or stops is started again, and
a replaced one gives all of its memory back. Knows how to start, ask and end the process.
"""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any

from nextquery.errors import NextqueryError
from nextquery.inference.giving_up import GivenUpError
from nextquery.service.models.engine import Engine
from nextquery.service.models.messages import (
    Batch,
    Check,
    Facts,
    Failure,
    GivenUp,
    GiveUp,
    Opening,
    Reply,
)
from nextquery.service.models.model_process import LOW_PRIORITY
from nextquery.service.models.questions import Answer, Question
from nextquery.service.operation import logging

SECONDS_TO_END = 2.0
"""A process that is not needed any more has nothing to lose: soon it is ended by force."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a model that could not be started again is tried once more."""


class ModelEndedError(Exception):
    """The model's process ended over a question, and asking again did not help."""


class ModelLateError(ModelEndedError):
    """The model was ended because it took too long."""


class ModelFailedError(Exception):
    """The model raised an error that was not expected: its type and places in the code."""


class IsolatedEngine(Engine):
    """An engine in another process; one batch at a time.

    `kill`, `give_up` and `close` may be called from any thread, everything else from the one that
    asks.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._lock = threading.RLock()
        self._sending = threading.Lock()
        self._blocked: Mapping[str, int] = {}
        self._asked_at: float | None = None
        self._killed = False
        self._ending = False
        self._pause = FIRST_PAUSE
        self._start_not_before = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None

    @property
    def process_id(self) -> int:
        """The process that answers."""
        assert self._process is not None
        return self._process.pid

    @property
    def silent_for(self) -> float:
        """Seconds since it was asked something that it has not answered."""
        asked = self._asked_at
        return 0.0 if asked is None else time.monotonic() - asked

    def start(self, *, low_priority: bool = False) -> None:
        """Start the process and wait until it has loaded the model.

        `low_priority` is for a replacement: loading it gives way to the model still answering.
        """
        with self._lock:
            self._loading, self._killed = True, False
            try:
                self._start_process(low_priority)
                self._take_facts()
            finally:
                self._loading = False

    def answer(self, questions: Sequence[Question[Answer]]) -> list[Answer]:
        """Ask the process; if it ends, another is started and asked once more."""
        batch = Batch(tuple(questions))
        with self._lock:
            self._start_if_ended()
            try:
                return self._exchange(batch).answers
            except (EOFError, OSError):
                if self._killed:
                    raise ModelLateError("the model took too long and was ended") from None
            self._start_if_ended()
            try:
                return self._exchange(batch).answers
            except (EOFError, OSError):
                raise ModelEndedError("the model's process ended over one batch twice") from None

    def check(self) -> None:
        """Ask for a sign of life; a process that has ended is started again."""
        with self._lock:
            if self._ending:
                return
            try:
                self._start_if_ended()
                self._exchange(Check())
            except ModelEndedError as error:
                logging.log_failure("the model could not be started again", error)
            except (EOFError, OSError):
                pass  # ended just now: the next check starts it again

    def blocked(self) -> Mapping[str, int]:
        """What the process said with its last answer."""
        return self._blocked

    def kill(self) -> None:
        """End the process at once, whatever it does; who waits for an answer is told."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def give_up(self) -> None:
        """Tell the process that nobody waits for the present batch any more.

        Where that cannot be said without waiting, the batch is computed to its end.
        """
        if not self._sending.acquire(blocking=False):
            return
        try:
            if self._connection is not None and self._asked_at is not None:
                with contextlib.suppress(OSError, ValueError):
                    self._connection.send(GiveUp())
        finally:
            self._sending.release()

    def close(self) -> None:
        """End the process, if need be by force."""
        self._ending = True
        if self._loading:
            self.kill()
        with self._lock:
            if self._process is None or self._connection is None:
                return
            self._connection.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(SECONDS_TO_END)
                return
            self._process.kill()
            self._process.wait()

    def _start_process(self, low_priority: bool) -> None:
        # Both ends are this program, and the socket has no name: nobody else's data is unpickled.
        self._connection, other = Pipe()
        module = "nextquery.service.models.model_process"
        command = [sys.executable, "-m", module, str(other.fileno())]
        with other:
            self._process = subprocess.Popen(
                [*command, LOW_PRIORITY] if low_priority else command,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
            )
        if self._ending:
            self._process.kill()

    def _take_facts(self) -> None:
        assert self._connection is not None
        assert self._process is not None
        try:
            self._connection.send(self._opening)
            facts = self._connection.recv()
        except (EOFError, OSError):
            self._process.kill()
            self._process.wait()
            raise ModelEndedError("the model's process ended while it loaded the model") from None
        if not isinstance(facts, Facts):
            self._process.wait()
            self._connection.close()
            if isinstance(facts, Failure):
                raise ModelFailedError(facts.error, *facts.places)
            raise facts
        self.kind, self.version, self.explains = facts.kind, facts.version, facts.explains
        self.specificity, self.min_users = facts.specificity, facts.min_users
        self.judges_usefulness = facts.judges_usefulness

    def _exchange(self, message: Batch | Check) -> Reply:
        assert self._connection is not None
        self._asked_at = time.monotonic()
        try:
            with self._sending:
                self._connection.send(message)
            reply = self._connection.recv()
        except (EOFError, OSError):
            self._connection.close()  # so that another process is started, even if this one lingers
            raise
        finally:
            self._asked_at = None
        if isinstance(reply, NextqueryError):
            raise reply
        if isinstance(reply, Failure):
            raise ModelFailedError(reply.error, *reply.places)
        if isinstance(reply, GivenUp):
            raise GivenUpError
        assert isinstance(reply, Reply)
        self._blocked, self.blocklist = reply.blocked, reply.blocklist
        self.states_found, self.states_missed = reply.states_found, reply.states_missed
        return reply

    def _start_if_ended(self) -> None:
        """Start another process if the last one has ended, after a pause if that fails."""
        assert self._process is not None
        assert self._connection is not None
        if self._process.poll() is None and not self._killed and not self._connection.closed:
            return
        if self._ending or time.monotonic() < self._start_not_before:
            raise ModelEndedError("the model's process ended")
        self._process.kill()
        code = self._process.wait()
        self._connection.close()
        logging.log_event("the model's process ended, starting another", exit_code=code)
        self.restarts += 1
        try:
            self.start()
        except (NextqueryError, ModelEndedError, ModelFailedError) as error:
            self._start_not_before = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            raise ModelEndedError(str(error)) from error
        self._pause = FIRST_PAUSE

"""A neural model in a process of its own, and the protocol between both processes.

The service sends an `Opening` and gets `Facts`, or the error why the folder cannot be used. Then
it sends one `Batch` at a time and gets a `Reply` or an error. While a batch is computed it may send
`Cancel`: the reply is then a `DecodingCancelledError`. A `Cancel` that comes too late has no reply.
The process ends when the connection is closed.
"""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from nextquery.errors import NextqueryError
from nextquery.guard.guard import Guard, read_hits
from nextquery.inference.decoder import DecodingCancelledError, cancel_when
from nextquery.service import monitoring
from nextquery.service.engine import (
    Answer,
    BlocklistState,
    BlocklistWatch,
    Engine,
    Facts,
    Question,
    open_engine,
)
from nextquery.suggesters.rewriting import QueryRewriter, Synonyms


@dataclass(frozen=True)
class Opening:
    """What the process is to open."""

    path: Path
    blocklist: Path | None
    hits: Path | None = None


@dataclass(frozen=True)
class Batch:
    """Questions of one group, to be answered together; an empty batch only checks that it runs."""

    questions: tuple[Question[Any], ...]


@dataclass(frozen=True)
class Cancel:
    """Nobody waits for the present batch any more."""


@dataclass(frozen=True)
class Reply:
    """The answers to a batch, and the engine's state and counts since it was opened."""

    answers: list[Any]
    blocklist: BlocklistState
    blocked: Mapping[str, int]


class ModelFailedError(Exception):
    """The model raised an error that was not expected: its type and places in the code.

    Never its message, which may quote a query.
    """


Response = Reply | Exception | None
Answerer = Callable[[Batch | Cancel], Response]
"""Gives the response to a message; None to a `Cancel` that came too late."""


def open_model(connection: "Connection[Any, Any]") -> Answerer | None:
    """Open the folder of the first message and send its facts; None if it cannot be used."""
    opening: Opening = connection.recv()
    try:
        engine = open_engine(opening.path, opening.blocklist, opening.hits)
    except Exception as error:
        connection.send(_to_send(error))
        return None
    connection.send(engine.facts)

    def unwanted() -> bool:
        try:
            return connection.poll() and isinstance(connection.recv(), Cancel)
        except (EOFError, OSError):  # the service is gone
            return True

    return partial(_answer, engine, unwanted)


def _answer(engine: Engine, unwanted: Callable[[], bool], message: Batch | Cancel) -> Response:
    if isinstance(message, Cancel):
        return None
    try:
        with cancel_when(unwanted):
            answers = engine.answer(message.questions) if message.questions else []
    except Exception as error:
        return _to_send(error)
    return Reply(answers, engine.blocklist, engine.blocked())


def _to_send(error: Exception) -> Exception:
    """An expected error as it is, any other as its type and places."""
    if isinstance(error, NextqueryError | DecodingCancelledError):
        return error
    return ModelFailedError(type(error).__name__, *monitoring.code_places(error.__traceback__))


SECONDS_TO_END = 2.0
"""A process that is not needed any more has nothing to lose: soon it is ended by force."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a model that could not be started again is tried once more."""


class ModelEndedError(Exception):
    """The model's process ended over a question, and asking again did not help."""


class ModelLateError(ModelEndedError):
    """The model was ended because it took too long."""


class IsolatedEngine(Engine):
    """An engine in another process; one batch at a time.

    `kill`, `cancel` and `close` may be called from any thread, everything else from the one that
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
        self._watch: BlocklistWatch | None = None

    @property
    def process_id(self) -> int:
        """The process that answers."""
        assert self._process is not None
        return self._process.pid

    @property
    def silent_for(self) -> float:
        """Seconds since it was asked something that it has not answered."""
        since = self._asked_at
        return 0.0 if since is None else time.monotonic() - since

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

    def open_rewriter(self, synonyms: Synonyms | None) -> None:
        """Correct texts in this process, by the tables of the model folder and the blocklist."""
        blocklist, hits = self._opening.blocklist, self._opening.hits
        guard = Guard.open(self._opening.path, blocklist, read_hits(hits) if hits else None)
        self.rewriter = QueryRewriter(guard, synonyms)
        if blocklist is not None:
            self._watch = BlocklistWatch(guard, blocklist)
            self._watch.start()

    def check(self) -> None:
        """Check that the process answers; start it again if it has ended."""
        with self._lock:
            if self._ending:
                return
            try:
                self._start_if_ended()
                self._exchange(Batch(()))
            except ModelEndedError as error:
                monitoring.log_failure("the model could not be started again", error)
            except (EOFError, OSError):
                pass  # ended just now: the next check starts it again

    def blocked(self) -> Mapping[str, int]:
        """The counts of the last reply."""
        return self._blocked

    def kill(self) -> None:
        """End the process at once, whatever it does; `answer` then raises `ModelLateError`."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def cancel(self) -> None:
        """Tell the process that nobody waits for the present batch any more.

        If sending would have to wait, the batch is computed to its end.
        """
        if not self._sending.acquire(blocking=False):
            return
        try:
            if self._connection is not None and self._asked_at is not None:
                with contextlib.suppress(OSError, ValueError):
                    self._connection.send(Cancel())
        finally:
            self._sending.release()

    def close(self) -> None:
        """End the process, if need be by force."""
        self._ending = True
        if self._watch is not None:
            self._watch.stop()
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
        module = "nextquery.service.model_process"
        command = [sys.executable, "-m", module, str(other.fileno())]
        with other:
            self._process = subprocess.Popen(
                [*command, "low_priority"] if low_priority else command,
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
            facts: Facts | Exception = self._connection.recv()
        except (EOFError, OSError):
            self._process.kill()
            self._process.wait()
            raise ModelEndedError("the model's process ended while it loaded the model") from None
        if isinstance(facts, Exception):
            self._process.wait()
            self._connection.close()
            raise facts
        self.facts = facts

    def _exchange(self, batch: Batch) -> Reply:
        assert self._connection is not None
        self._asked_at = time.monotonic()
        try:
            with self._sending:
                self._connection.send(batch)
            reply = self._connection.recv()
        except (EOFError, OSError):
            self._connection.close()  # so that another process is started, even if this one lingers
            raise
        finally:
            self._asked_at = None
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, Reply)
        self._blocked, self.blocklist = reply.blocked, reply.blocklist
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
        monitoring.log_event("the model's process ended, starting another", exit_code=code)
        self.restarts += 1
        try:
            self.start()
        except (NextqueryError, ModelEndedError, ModelFailedError) as error:
            self._start_not_before = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            raise ModelEndedError(str(error)) from error
        self._pause = FIRST_PAUSE

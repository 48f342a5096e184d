"""Rankers trained in processes of their own, while the next scenario's features are computed.

Knows how a job is given away and taken back; what is trained is `rankers.py`. Boosting and features
are both half Python: in threads of one process they would wait for each other.
"""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any, Self

from nextquery.errors import NextqueryError
from nextquery.evaluation.ranking.rankers import RankerGroup, RankerTrainer, train_all
from nextquery.ranking.lambdamart import RankedPart

AT_ONCE = 2
"""Jobs at a time: while one waits for its last ranker, the other goes on."""

WORTH_A_PROCESS = 20_000
"""Candidates to learn from; fewer are learnt sooner than a process has started."""


@dataclass(frozen=True)
class RankerJob:
    """What the rankers of one scenario, and one fold of users, learn from."""

    training: RankedPart
    validation: RankedPart
    seeds: tuple[int, ...]
    models: tuple[str, ...]
    features: tuple[str, ...]


@dataclass(frozen=True)
class TrainedRankers:
    """What a job gives."""

    groups: dict[str, RankerGroup]
    choices: dict[str, dict[str, float]]
    """By model: the validation MRR of every set of forms."""
    seconds: float = 0.0
    """Processor time of the process that trained them, if that was one of their own."""


PROCESS = "nextquery.evaluation.ranking.ranker_process"

Train = Callable[[RankerJob], "Future[TrainedRankers]"]


def train_here(job: RankerJob) -> "Future[TrainedRankers]":
    """Train in this process, before anything else."""
    found: Future[TrainedRankers] = Future()
    found.set_result(train_rankers(job))
    return found


class RankerProcesses:
    """Gives jobs to processes of their own; leaving ends those that still run."""

    def __init__(self) -> None:
        self._waiting = ThreadPoolExecutor(AT_ONCE)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        for process in tuple(self._running):
            process.kill()
        self._waiting.shutdown(cancel_futures=True)

    def train(self, job: RankerJob) -> "Future[TrainedRankers]":
        """Begin to train, in this process only if there is little to learn from."""
        if job.training.cases.rows < WORTH_A_PROCESS or sys.platform == "win32":
            return train_here(job)
        return self._waiting.submit(self._train_apart, job)

    def _train_apart(self, job: RankerJob) -> TrainedRankers:
        # Both ends are this program, and the socket has no name: nobody else's data is unpickled.
        ours, theirs = Pipe()
        command = [sys.executable, "-m", PROCESS, str(theirs.fileno())]
        with ours:
            with theirs:
                process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
                )
            self._running.add(process)
            if self._closed:
                process.kill()
            try:
                return _ask(ours, job)
            finally:
                process.wait()
                self._running.discard(process)


def _ask(process: "Connection[Any, Any]", job: RankerJob) -> TrainedRankers:
    try:
        process.send(job)
        found = process.recv()
    except (EOFError, OSError):
        raise NextqueryError(
            "a process that trained rankers ended; if memory ran out, `ranker_cases` bounds it"
        ) from None
    if isinstance(found, BaseException):
        raise found
    assert isinstance(found, TrainedRankers)
    return found


def train_rankers(job: RankerJob) -> TrainedRankers:
    """Train every ranker of a job, side by side."""
    trainer = RankerTrainer(job.training, job.validation, job.seeds)
    groups, choices = train_all(trainer, job.models, job.features)
    return TrainedRankers(groups, dict(choices))

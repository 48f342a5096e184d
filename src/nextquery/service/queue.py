"""The queue of one model: the cost of a question, and requests answered in batches."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from nextquery.model.settings import TrainConfig
from nextquery.service.engine import (
    CompleteQuestion,
    Question,
    ScoreQuestion,
    SuggestQuestion,
    WhyQuestion,
)
from nextquery.service.settings import text_bytes
from nextquery.suggesters.diagnosis import LISTED

LIST_LENGTH = 10
"""Suggestions of an ordinary list: the beam is as wide in any case."""
SUGGESTIONS_PER_UNIT = 20
"""Number of additional suggestions that cost as much as an ordinary list."""
FREE_WORDS = 50
"""Words of an ordinary session."""
WORDS_PER_UNIT = 500
"""Number of additional words to read that cost as much as an ordinary list."""
FREE_BYTES = 200
BYTES_PER_UNIT = 350
"""Text outside ASCII takes time to normalise and to find words in, here and in the model: the
number of bytes of UTF-8 beyond one per character that cost as much as an ordinary list. A
Chinese character has two."""
PREFIX_WORDS_PER_UNIT = 20
"""Words of a half-typed query that cost as much as an ordinary list: each is decoded."""
CANDIDATE_WORDS_PER_UNIT = 200
"""Words of candidates to score that cost as much as an ordinary list."""
_READ = TrainConfig()
"""A model reads no more of a session than it was trained on, by default this much."""


def cost(question: Question[Any]) -> float:
    """At least 1.

    >>> cost(SuggestQuestion(("paris", "paris hotels")))
    1.0
    """
    texts = list(question.context)
    answering = 0.0
    match question:
        case SuggestQuestion(options=options):
            answering = _list_of(options.n)
        case CompleteQuestion(prefix=prefix, n=n):
            texts.append(prefix)
            answering = _list_of(n) + len(prefix.split()) // PREFIX_WORDS_PER_UNIT
        case ScoreQuestion(candidates=candidates):
            texts += candidates
            answering = sum(map(_words, candidates)) / CANDIDATE_WORDS_PER_UNIT
        case WhyQuestion():
            answering = _list_of(LISTED)
    read = question.context[-_READ.max_queries :]
    words = sum(min(_READ.max_words, _words(query)) for query in read)
    reading = max(0, words - FREE_WORDS) / WORDS_PER_UNIT
    foreign = sum(text_bytes(text) - len(text) for text in texts)
    normalising = max(0, foreign - FREE_BYTES) / BYTES_PER_UNIT
    return max(1.0, answering) + reading + normalising


def _list_of(n: int) -> float:
    return 1.0 + max(0, n - LIST_LENGTH) / SUGGESTIONS_PER_UNIT


def _words(text: str) -> int:
    return len(text.split()) + 1


Run = Callable[[Sequence[Any]], Sequence[Any]]
SECONDS_OF_CALM = 1.0
"""An overload is over when nobody was refused for this long."""
PART_OF_A_BATCH = 0.7
"""In an overload nobody is accepted who would wait longer for the next batch to begin; when the
model has been idle for this long, it is over."""
LONGEST_WAIT_IN_BATCHES = 2.0
"""In an overload a job that has waited for this number of whole batches is refused."""
SECONDS_BETWEEN_CHECKS = 0.25
"""How often an idle model is checked."""
NEW_SHARE = 0.1
"""How much the latest batch counts in the expected time of a batch of its size."""


class QueueFullError(Exception):
    """The queue is full; `retry_after` seconds from now it may have space."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


@dataclass(eq=False, slots=True)
class Job:
    """One question to the model. Jobs of equal `key` can be answered in one call."""

    key: Hashable
    question: Any
    answer: asyncio.Future[Any]
    cost: float = 1.0
    """1 for an ordinary question; a batch costs no more than as many ordinary ones."""
    submitted: float = 0.0
    started: bool = False


class Batcher:
    """A bounded queue before a model, and the thread in which the model runs."""

    def __init__(
        self,
        run: Run,
        queue_size: int,
        batch_size: int,
        burst_seconds: float,
        name: str = "model",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._clock = clock
        self._queue_size = queue_size
        self._batch_size = batch_size
        self._burst_seconds = burst_seconds
        self._waiting: deque[Job] = deque()
        self._arrival = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._seconds: dict[int, float] = {}  # expected, by the cost of a batch
        self._free_at: float | None = None  # while a batch is being answered
        self._idle_since: float | None = None
        self._behind_since: float | None = None
        self._behind_by = 0
        self._overloaded = False
        self._refused_at = clock()
        self._loop_task: asyncio.Task[None] | None = None
        self.on_batch: Callable[[int, float], None] = lambda size, seconds: None
        self.on_idle: Callable[[], None] = lambda: None
        self.on_unwanted: Callable[[], None] = lambda: None
        self._computed: list[Job] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def expected_wait(self) -> float:
        """Seconds until a job that comes now would be answered, from the recent pace."""
        batches, rest = divmod(_total(self._waiting) + 1, self._batch_size)
        return self._remaining + batches * self._time_of(self._batch_size) + self._time_of(rest)

    @property
    def _remaining(self) -> float:
        """Seconds until the model is expected to be free; for a late batch, its delay so far."""
        return 0.0 if self._free_at is None else abs(self._free_at - self._clock())

    def do_between(self, action: Callable[[], None]) -> None:
        """Do something in the model's thread once the present batch is done."""
        self._thread.submit(action)

    def start(self) -> None:
        """Begin answering."""
        self._loop_task = asyncio.get_running_loop().create_task(self._serve())

    async def stop(self) -> None:
        """Stop answering; whoever still waits is cancelled."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)
        while self._waiting:
            self._waiting.popleft().answer.cancel()
        # In a thread: the monitoring of the model must continue until its last batch is done.
        await asyncio.to_thread(self._thread.shutdown)

    def submit(
        self, key: Hashable, questions: Sequence[Any], costs: Sequence[float] = ()
    ) -> list[Job]:
        """Queue questions, all or none: `QueueFullError` if there is no place for the first."""
        if not self._has_capacity():
            self._refused_at = self._clock()
            raise QueueFullError(self.expected_wait)
        loop = asyncio.get_running_loop()
        jobs = [
            Job(key, question, loop.create_future(), cost, self._clock())
            for question, cost in zip(questions, costs or [1.0] * len(questions), strict=True)
        ]
        for job in jobs:
            job.answer.add_done_callback(_consume_error)
        self._waiting.extend(jobs)
        self._arrival.set()
        return jobs

    def _has_capacity(self) -> bool:
        """Whether one more may wait now."""
        if len(self._waiting) >= self._queue_size:
            return False
        soon = PART_OF_A_BATCH * self._time_of(self._batch_size)
        now = self._clock()
        idled = self._idle_since is not None and now - self._idle_since > soon
        if idled or now - self._refused_at > SECONDS_OF_CALM:
            self._overloaded = False
        if not self._overloaded:
            return True
        return self._remaining <= soon and len(self._waiting) < self._batch_size

    def withdraw(self, jobs: Sequence[Job], *, unwanted: bool = False) -> None:
        """Take jobs back whose client left or lost patience.

        What is being computed continues, and its answer is cached, unless its clients are gone
        (`unwanted`) and nobody else's question is in the same batch.
        """
        for job in jobs:
            if not job.started:
                self._waiting.remove(job)
            if unwanted or not job.started:
                job.answer.cancel()
        if unwanted and self._computed and all(job.answer.done() for job in self._computed):
            self.on_unwanted()

    async def _serve(self) -> None:
        while True:
            while not self._waiting:
                await self._idle()
            self._refuse_late()
            if self._waiting:
                await self._answer(self._take())

    async def _idle(self) -> None:
        """Wait for a job, and check the model meanwhile."""
        self._arrival.clear()
        self._idle_since = self._clock()
        while not self._arrival.is_set():
            try:
                async with asyncio.timeout(SECONDS_BETWEEN_CHECKS):
                    await self._arrival.wait()
            except TimeoutError:
                await asyncio.get_running_loop().run_in_executor(self._thread, self.on_idle)
        self._idle_since = None

    def _refuse_late(self) -> None:
        """In an overload, refuse jobs that waited too long: their answers would come too late."""
        longest = LONGEST_WAIT_IN_BATCHES * self._time_of(self._batch_size)
        if not self._overloaded or not longest:
            return
        now = self._clock()
        late = [job for job in self._waiting if now - job.submitted > longest]
        self._waiting = deque(job for job in self._waiting if now - job.submitted <= longest)
        for job in late:
            self._refused_at = now
            if not job.answer.done():
                job.started = True  # nobody can withdraw it any more
                job.answer.set_exception(QueueFullError(self.expected_wait))

    def _take(self) -> list[Job]:
        """The oldest job and those like it, up to a batch; the others keep their order."""
        first = self._waiting[0]
        batch, waiting, left = [first], list[Job](), self._batch_size - first.cost
        for job in list(self._waiting)[1:]:
            like = job.key == first.key and job.cost <= left
            left -= job.cost if like else 0.0
            (batch if like else waiting).append(job)
        self._waiting = deque(waiting)
        for job in batch:
            job.started = True
        self._check_backlog()
        return batch

    def _check_backlog(self) -> None:
        """Notice a whole batch that waits for too long while the backlog does not shrink."""
        now, number = self._clock(), len(self._waiting)
        if number < self._batch_size:
            self._behind_since = None
        elif self._behind_since is None or number < self._behind_by:
            self._behind_since, self._behind_by = now, number
        elif now - self._behind_since > self._burst_seconds and not self._overloaded:
            self._overloaded = True
            self._refused_at = now

    def _time_of(self, size: int) -> float:
        """Seconds that a batch of this cost is expected to take: those of the next larger known."""
        if not size or not self._seconds:
            return 0.0
        larger = [batch_size for batch_size in self._seconds if batch_size >= size]
        return self._seconds[min(larger) if larger else max(self._seconds)]

    async def _answer(self, jobs: list[Job]) -> None:
        begin = self._clock()
        self._free_at = begin + self._time_of(_total(jobs))
        questions = [job.question for job in jobs]
        self._computed = jobs
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._run, questions
            )
        except Exception as error:
            for job in jobs:
                if not job.answer.done():
                    job.answer.set_exception(error)
            return
        finally:
            self._free_at = None
            self._computed = []
        for job, answer in zip(jobs, answers, strict=True):
            if not job.answer.done():
                job.answer.set_result(answer)
        seconds, size = self._clock() - begin, _total(jobs)
        self.on_batch(len(jobs), seconds)
        before = self._seconds.get(size, seconds)
        self._seconds[size] = before + NEW_SHARE * (seconds - before)


def _total(jobs: Iterable[Job]) -> int:
    """What jobs cost together, in ordinary questions."""
    return math.ceil(sum(job.cost for job in jobs))


def _consume_error(answer: asyncio.Future[Any]) -> None:
    """Read an error that nobody waits for any more, so that asyncio does not report it."""
    if not answer.cancelled():
        answer.exception()

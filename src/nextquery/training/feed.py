"""The input pipeline: the batches of an epoch, made ahead of time.

The order is a function of seed and epoch alone, and the candidates of a step of seed and step, so
that a run can continue anywhere. Every process cuts the same batches and takes its share.
"""

import contextlib
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nextquery.model.likelihood import Candidates, CandidateSampler
from nextquery.text.batching import Batch, build_batch, epoch_batches
from nextquery.text.corpus import EncodedSessions

T = TypeVar("T")
_ORDER, _CANDIDATES, _DROPOUT = 0, 1, 2
"""What a random stream is for, so that no two are the same."""


@dataclass(frozen=True)
class Order:
    """What decides which sessions a batch has, and all that is drawn for a step."""

    seed: int
    batch_words: int
    """Symbols to predict per batch."""
    sort_window: int = 64
    """Number of batches whose sessions are sorted by length together."""


@dataclass(frozen=True)
class TrainingStep:
    """What one process needs for one step."""

    batch: Batch
    candidates: Candidates | None
    members: NDArray[np.int64]
    """The sessions of the whole batch, over all processes."""
    words: int
    """The symbols that the whole batch predicts."""
    counts: bool
    """Whether this process's share counts; a batch may have fewer sessions than processes."""


class Feed:
    """The batches of every epoch, for one of several processes."""

    def __init__(
        self,
        corpus: EncodedSessions,
        order: Order,
        sampler: CandidateSampler | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self._corpus = corpus
        self._order = order
        self._sampler = sampler
        self._rank, self._processes = share
        self._lengths, self._queries = corpus.lengths(), corpus.queries()

    def epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        """The sessions of each batch of an epoch, in order."""
        order = self._order
        rng = np.random.default_rng((order.seed, _ORDER, epoch))
        return epoch_batches(
            self._lengths, self._queries, order.batch_words, rng, order.sort_window
        )

    def ids(self, members: NDArray[np.int64]) -> list[int]:
        """The ids that sessions have in the prepared data."""
        return [int(identifier) for identifier in self._corpus.ids[members]]

    def steps(
        self, batches: list[NDArray[np.int64]], start: int, step: int
    ) -> Iterator[TrainingStep]:
        """The batches from number `start` on, the first being step number `step`."""
        numbered = enumerate(batches[start:], start=step)
        return ahead(self._step(members, number) for number, members in numbered)

    def _step(self, members: NDArray[np.int64], step: int) -> TrainingStep:
        mine = members[self._rank :: self._processes]
        full_batch = build_batch(self._corpus, members)
        candidates = None
        if self._sampler is not None:
            rng = np.random.default_rng((self._order.seed, _CANDIDATES, step))
            candidates = self._sampler.draw(full_batch.targets, rng)
        batch = full_batch
        if self._processes > 1:
            batch = build_batch(self._corpus, mine if len(mine) else members[:1])
        return TrainingStep(batch, candidates, members, len(full_batch.targets), len(mine) > 0)


def dropout_seed(seed: int, step: int, rank: int) -> int:
    """The seed of a step's dropout: it need not be stored to resume a run."""
    return int(np.random.SeedSequence((seed, _DROPOUT, step, rank)).generate_state(1)[0])


def ahead(items: Iterator[T], depth: int = 4) -> Iterator[T]:
    """The items, made up to `depth` ahead of time by a thread."""
    ready: queue.Queue[T | BaseException | None] = queue.Queue(depth)
    leaving = threading.Event()

    def put(item: T | BaseException | None) -> None:
        while not leaving.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def work() -> None:
        try:
            for item in items:
                if leaving.is_set():
                    return
                put(item)
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=work, name="batches", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        leaving.set()
        thread.join()

"""The queue before a model. The model here is a function that a test can hold back."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

import pytest

from nextquery.service.batching import Batcher, QueueFullError


class HeldModel:
    """Answers with the question doubled, once it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.entered = threading.Event()
        self.batches: list[list[Any]] = []

    def __call__(self, key: Hashable, questions: Sequence[Any]) -> list[Any]:
        self.batches.append(list(questions))
        self.entered.set()
        assert self.released.wait(10)
        return [question * 2 for question in questions]


def run(model: Any, scenario: Callable[[Batcher], Awaitable[None]]) -> None:
    async def main() -> None:
        batcher = Batcher(model, queue_size=4, batch_size=3)
        batcher.start()
        try:
            await scenario(batcher)
        finally:
            if isinstance(model, HeldModel):
                model.released.set()
            await batcher.stop()

    asyncio.run(main())


async def begun(batcher: Batcher, model: HeldModel) -> None:
    """Put one question into the model's hands."""
    batcher.submit("k", [0])
    await asyncio.to_thread(model.entered.wait, 10)


def test_what_waits_is_answered_together() -> None:
    model = HeldModel()

    async def scenario(batcher: Batcher) -> None:
        await begun(batcher, model)
        jobs = [batcher.submit("k", [number])[0] for number in (1, 2, 3, 4)]
        model.released.set()
        assert [await job.answer for job in jobs] == [2, 4, 6, 8]
        assert model.batches == [[0], [1, 2, 3], [4]]

    run(model, scenario)


def test_only_like_questions_share_a_batch() -> None:
    model = HeldModel()

    async def scenario(batcher: Batcher) -> None:
        await begun(batcher, model)
        jobs = [batcher.submit(key, [number])[0] for key, number in [("a", 1), ("b", 2), ("a", 3)]]
        model.released.set()
        assert [await job.answer for job in jobs] == [2, 4, 6]
        assert model.batches == [[0], [1, 3], [2]]

    run(model, scenario)


def test_a_full_queue_refuses_at_once() -> None:
    model = HeldModel()

    async def scenario(batcher: Batcher) -> None:
        await begun(batcher, model)
        batcher.submit("k", [1, 2, 3, 4])
        with pytest.raises(QueueFullError):
            batcher.submit("k", [5])

    run(model, scenario)


def test_a_withdrawn_job_leaves_the_queue() -> None:
    model = HeldModel()

    async def scenario(batcher: Batcher) -> None:
        await begun(batcher, model)
        left, stays = batcher.submit("k", [1]), batcher.submit("k", [2])
        batcher.withdraw(left)
        assert len(batcher) == 1
        model.released.set()
        assert await stays[0].answer == 4
        assert model.batches == [[0], [2]]

    run(model, scenario)


def test_a_job_in_the_models_hands_is_finished_though_nobody_waits() -> None:
    model = HeldModel()

    async def scenario(batcher: Batcher) -> None:
        job = batcher.submit("k", [7])
        await asyncio.to_thread(model.entered.wait, 10)
        batcher.withdraw(job)
        model.released.set()
        assert await job[0].answer == 14

    run(model, scenario)


def test_an_error_reaches_those_who_asked_and_no_one_else() -> None:
    def fails_on_zero(key: Hashable, questions: Sequence[Any]) -> list[float]:
        return [1 / question for question in questions]

    async def scenario(batcher: Batcher) -> None:
        bad = batcher.submit("bad", [0])[0]
        good = batcher.submit("good", [4])[0]
        with pytest.raises(ZeroDivisionError):
            await bad.answer
        assert await good.answer == 0.25

    run(fails_on_zero, scenario)


def test_a_lasting_overload_leaves_room_for_one_batch_only() -> None:
    model = HeldModel()
    now = [0.0]

    async def scenario() -> None:
        batcher = Batcher(model, queue_size=9, batch_size=2, clock=lambda: now[0])
        batcher.start()
        jobs = batcher.submit("k", [1, 2])  # a full batch
        await asyncio.to_thread(model.entered.wait, 10)
        jobs += batcher.submit("k", [3, 4, 5])  # a burst is taken whole
        now[0] = 1.0
        with pytest.raises(QueueFullError):
            batcher.submit("k", [6])
        model.released.set()
        assert [await job.answer for job in jobs] == [2, 4, 6, 8, 10]
        # The last batch was not full: the overload is over.
        jobs = [batcher.submit("k", [number])[0] for number in range(9)]
        assert len([await job.answer for job in jobs]) == 9
        await batcher.stop()

    asyncio.run(scenario())

"""The queue before a model, how long a request waits, and who answers it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request

from nextquery.service.answering import ClientLeftError, Service, build_service, finished
from nextquery.service.engine import SuggestQuestion
from nextquery.service.queue import Batcher, Job, QueueFullError
from nextquery.service.schemas import BusyError, InSession, ProblemError
from nextquery.service.sessions import session_key
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.suggesters.base import SuggestOptions


class HeldModel:
    """Answers with the question doubled, once it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.entered = threading.Event()
        self.batches: list[list[Any]] = []

    def __call__(self, questions: Sequence[Any]) -> list[Any]:
        self.batches.append(list(questions))
        self.entered.set()
        assert self.released.wait(120)
        return [question * 2 for question in questions]


def run(model: Any, scenario: Callable[[Batcher], Awaitable[None]]) -> None:
    async def main() -> None:
        batcher = Batcher(model, queue_size=4, batch_size=3, burst_seconds=0.25)
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
    await asyncio.to_thread(model.entered.wait, 120)


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
        await asyncio.to_thread(model.entered.wait, 120)
        batcher.withdraw(job)
        model.released.set()
        assert await job[0].answer == 14

    run(model, scenario)


def test_a_batch_is_cancelled_once_all_of_its_clients_are_gone() -> None:
    model = HeldModel()
    given_up: list[int] = []

    async def scenario(batcher: Batcher) -> None:
        batcher.on_unwanted = lambda: given_up.append(len(model.batches))
        await begun(batcher, model)
        jobs = batcher.submit("k", [1, 2])
        model.entered.clear()
        model.released.set()
        model.released = threading.Event()
        await asyncio.to_thread(model.entered.wait, 120)
        batcher.withdraw(jobs[:1], unwanted=True)
        assert not given_up  # somebody still waits
        batcher.withdraw(jobs[1:], unwanted=True)
        assert len(given_up) == 1
        model.released.set()
        [later] = batcher.submit("k", [3])
        assert await later.answer == 6
        batcher.withdraw([later], unwanted=True)
        assert len(given_up) == 1  # nothing is being computed

    run(model, scenario)


def test_an_error_reaches_those_who_asked_and_no_one_else() -> None:
    def fails_on_zero(questions: Sequence[Any]) -> list[float]:
        return [1 / question for question in questions]

    async def scenario(batcher: Batcher) -> None:
        bad = batcher.submit("bad", [0])[0]
        good = batcher.submit("good", [4])[0]
        with pytest.raises(ZeroDivisionError):
            await bad.answer
        assert await good.answer == 0.25

    run(fails_on_zero, scenario)


def test_a_costly_question_leaves_no_room_for_others_in_its_batch() -> None:
    model = HeldModel()

    async def scenario(batcher: Batcher) -> None:
        await begun(batcher, model)
        jobs = [batcher.submit("k", [cost], [float(cost)])[0] for cost in (1, 5, 2)]
        model.released.set()
        assert [await job.answer for job in jobs] == [2, 10, 4]
        assert model.batches == [[0], [1, 2], [5]], "three ordinary ones make a batch"

    run(model, scenario)


def test_a_model_that_nobody_asks_is_looked_after() -> None:
    async def scenario(batcher: Batcher) -> None:
        looked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def look() -> None:
            loop.call_soon_threadsafe(looked.set)

        batcher.on_idle = look
        await asyncio.wait_for(looked.wait(), 120)
        assert await batcher.submit("k", [2])[0].answer == 2

    run(lambda questions: list(questions), scenario)


class SteppedModel:
    """Finishes one batch at every step, at the time that the test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self._begun = threading.Semaphore(0)
        self._finish = threading.Semaphore(0)

    def __call__(self, questions: Sequence[Any]) -> list[Any]:
        self._begun.release()
        assert self._finish.acquire(timeout=120)
        return list(questions)

    async def begun(self) -> None:
        """Until a batch has begun."""
        assert await asyncio.to_thread(self._begun.acquire, timeout=120)

    async def step(self, now: float) -> None:
        """Finish the present batch and wait until the next one has begun."""
        self.now = now
        self._finish.release()
        await self.begun()

    def finish_all(self) -> None:
        self._finish.release(100)


def started(model: SteppedModel) -> Batcher:
    """Two jobs a batch, nine places, and a burst that lasts a quarter of the model's second."""
    batcher = Batcher(
        model, queue_size=9, batch_size=2, burst_seconds=0.25, clock=lambda: model.now
    )
    batcher.start()
    return batcher


def test_an_overload_takes_only_what_is_begun_soon_until_nobody_was_refused_for_a_while() -> None:
    model = SteppedModel()

    async def scenario() -> None:
        batcher = started(model)
        jobs = batcher.submit("k", [0, 1, 2, 3])  # a burst is taken whole
        await model.begun()
        jobs += batcher.submit("k", [4, 5])
        await model.step(2.0)  # a batch takes 2 s, and as many wait as before: an overload
        model.now = 2.9
        with pytest.raises(QueueFullError) as refused:
            batcher.submit("k", [6])
        assert refused.value.retry_after >= 1.1  # what is left of this batch, at least
        await model.step(3.5)
        model.now = 3.9
        with pytest.raises(QueueFullError):
            batcher.submit("k", [6])  # nobody waits, but the last batch has hardly begun
        model.now = 4.75
        jobs += batcher.submit("k", [6])  # its batch begins soon
        await model.step(5.5)
        jobs += batcher.submit("k", [7] * 9)  # nobody was refused for a second: it is over
        model.finish_all()
        assert len(await asyncio.gather(*(job.answer for job in jobs))) == 16
        await batcher.stop()

    asyncio.run(scenario())


def test_an_overload_is_over_when_the_model_has_idled() -> None:
    model = SteppedModel()

    async def scenario() -> None:
        batcher = started(model)
        jobs = batcher.submit("k", [0, 1, 2, 3])
        await model.begun()
        jobs += batcher.submit("k", [4, 5])
        await model.step(0.5)  # as many wait as before: an overload
        with pytest.raises(QueueFullError):
            batcher.submit("k", [6])
        model.finish_all()
        await asyncio.gather(*(job.answer for job in jobs))
        await asyncio.sleep(0)
        model.now += 0.4  # more than .7 of the half second of a batch
        jobs = batcher.submit("k", [7] * 9)
        assert len(await asyncio.gather(*(job.answer for job in jobs))) == 9
        await batcher.stop()

    asyncio.run(scenario())


def test_a_burst_that_is_being_worked_off_is_not_an_overload() -> None:
    model = SteppedModel()

    async def scenario() -> None:
        batcher = started(model)
        jobs = batcher.submit("k", [0, 1, 2, 3, 4, 5, 6])
        await model.begun()  # five wait
        for number in range(3):  # one more comes with every batch, two go
            await model.step(2.0 * (number + 1))
            jobs += batcher.submit("k", [7 + number])
        model.finish_all()
        assert len(await asyncio.gather(*(job.answer for job in jobs))) == 10
        await batcher.stop()

    asyncio.run(scenario())


def test_clients_that_keep_the_model_just_busy_are_not_refused() -> None:
    async def scenario() -> None:
        now = [0.0]

        def takes_two_seconds(questions: Sequence[Any]) -> list[Any]:
            now[0] += 2.0
            return list(questions)

        batcher = Batcher(
            takes_two_seconds, queue_size=9, batch_size=2, burst_seconds=0.25, clock=lambda: now[0]
        )
        batcher.start()

        async def client() -> None:
            for number in range(20):
                assert await batcher.submit("k", [number])[0].answer == number

        await asyncio.gather(*(client() for _ in range(4)))  # two batches: one waits
        await batcher.stop()

    asyncio.run(scenario())


def test_a_late_batch_is_expected_to_stay_away_as_long_again() -> None:
    model = SteppedModel()

    async def scenario() -> None:
        batcher = started(model)
        jobs = batcher.submit("k", [0, 1, 2, 3])
        await model.begun()
        jobs += batcher.submit("k", [4, 5])
        await model.step(0.5)  # an overload
        await model.step(1.0)  # the last batch has begun, should be done at 1.5, and nobody waits
        model.now = 1.1
        with pytest.raises(QueueFullError):
            batcher.submit("k", [6])
        model.now = 1.9  # late by .4: more than most of a batch
        with pytest.raises(QueueFullError):
            batcher.submit("k", [7])
        model.finish_all()
        await asyncio.gather(*(job.answer for job in jobs), return_exceptions=True)
        await batcher.stop()

    asyncio.run(scenario())


def test_in_an_overload_who_waited_for_two_batches_is_refused_after_all() -> None:
    model = SteppedModel()

    async def scenario() -> None:
        batcher = started(model)
        jobs = batcher.submit("k", [0, 1, 2, 3])
        await model.begun()
        jobs += batcher.submit("k", [4, 5])
        await model.step(2.0)  # an overload: 4 and 5 wait since 0
        model.now = 9.0  # this batch takes 7 s: other programs keep the machine busy
        model.finish_all()
        assert [await job.answer for job in jobs[:4]] == [0, 1, 2, 3]
        for job in jobs[4:]:
            with pytest.raises(QueueFullError):
                await job.answer
        batcher.withdraw(jobs)
        await batcher.stop()

    asyncio.run(scenario())


def test_after_a_pause_without_an_overload_nobody_is_refused() -> None:
    model = SteppedModel()

    async def scenario() -> None:
        batcher = started(model)
        jobs = batcher.submit("k", [0, 1])
        await model.begun()
        jobs += batcher.submit("k", [2])
        model.now = 60.0
        model.finish_all()
        assert [await job.answer for job in jobs] == [0, 1, 2]
        await batcher.stop()

    asyncio.run(scenario())


class LeavingClient:
    """A request whose client leaves when told to."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()

    @property
    def request(self) -> Request:
        return Request({"type": "http", "headers": []}, self._receive)

    async def _receive(self) -> dict[str, Any]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}


def job() -> Job:
    return Job("k", "question", asyncio.get_running_loop().create_future())


@pytest.mark.parametrize("started", [False, True])
def test_after_the_budget_only_a_patient_client_waits_for_what_has_begun(started: bool) -> None:
    async def scenario() -> None:
        asked = job()
        asked.started = started
        if started:  # what nobody has begun is never answered here, however slow the machine
            asyncio.get_running_loop().call_later(0.3, asked.answer.set_result, 1)
        assert await finished(LeavingClient().request, [asked], 0.05, patient=True) == started
        other = job()
        other.started = started
        assert not await finished(LeavingClient().request, [other], 0.05, patient=False)

    asyncio.run(scenario())


def test_a_client_that_leaves_is_noticed_at_once() -> None:
    async def scenario() -> None:
        client = LeavingClient()
        asyncio.get_running_loop().call_later(0.01, client.leaves.set)
        with pytest.raises(ClientLeftError):  # otherwise it would wait for an hour
            await finished(client.request, [job()], 3600.0, patient=True)

    asyncio.run(scenario())


QUESTION = SuggestQuestion(("red shoes",), SuggestOptions(n=1))


class WaitingClient:
    """A client that waits for its answer."""

    async def is_disconnected(self) -> bool:
        return False

    async def receive(self) -> Any:
        await asyncio.sleep(3600)


def opened(served_models: dict[str, Path], tmp_path: Path, **settings: Any) -> Service:
    models = (NamedModel("adj", served_models["adjacency"]),)
    return build_service(ServiceSettings(models, tmp_path, **settings))


def test_before_the_models_are_loaded_it_is_503(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    async def scenario() -> None:
        service = opened(served_models, tmp_path)
        with pytest.raises(BusyError):
            service.model(None)
        with pytest.raises(ProblemError, match="there are: adj"):
            service.model("other")
        await service.load()
        assert service.model(None).name == "adj"

    asyncio.run(scenario())


def test_a_bad_folder_at_the_start_is_kept_as_the_failure(tmp_path: Path) -> None:
    async def scenario() -> None:
        service = build_service(ServiceSettings((NamedModel("m", tmp_path / "none"),), tmp_path))
        await service.load()
        assert "none" in str(service.failure)

    asyncio.run(scenario())


@pytest.mark.parametrize("fallback", [False, True])
def test_a_full_queue_is_503_or_the_fallbacks_answer(
    served_models: dict[str, Path], tmp_path: Path, fallback: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        path = served_models["popularity"] if fallback else None
        service = opened(served_models, tmp_path, fallback=path)
        await service.load()
        service.models.start()
        model, request = service.model(None), WaitingClient()

        def refuse(*_: object) -> None:
            raise QueueFullError(3.0)

        monkeypatch.setattr(model.engine, "immediate", False)
        monkeypatch.setattr(model.batcher, "submit", refuse)
        asked: Any = service.suggest(request, model, [QUESTION])  # type: ignore[arg-type]
        if fallback:
            answered = await asked
            assert (answered.fallback, answered.model) == (True, "popularity")
        else:
            with pytest.raises(BusyError) as refused:
                await asked
            assert refused.value.headers == {"Retry-After": "3"}
        await service.models.stop()

    asyncio.run(scenario())


def test_who_was_accepted_and_then_refused_gets_503(
    served_models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        service = opened(served_models, tmp_path)
        await service.load()
        model = service.model(None)
        submit = model.batcher.submit

        def late(*given: Any) -> Any:
            jobs = submit(*given)
            for job in jobs:
                job.started = True
                job.answer.set_exception(QueueFullError(1.0))
            return jobs

        monkeypatch.setattr(model.engine, "immediate", False)
        monkeypatch.setattr(model.batcher, "submit", late)
        with pytest.raises(BusyError):
            await service.suggest(WaitingClient(), model, [QUESTION])  # type: ignore[arg-type]

    asyncio.run(scenario())


def test_a_session_grows_and_blank_queries_do_not_count(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    async def scenario() -> None:
        service = opened(served_models, tmp_path)
        asked, later = InSession(context=["a", " "], session_id="s"), InSession(session_id="s")
        assert await service.context("", asked, "b") == ("a", "b")
        assert await service.context("", later) == (), "nothing is stored before the answer"
        for query in ("b", " "):
            assert await service.remember("", asked, query, await service.stored("", "s"))
        assert await service.context("", later, " ") == ("a", "b")
        assert await service.context("", later, "c") == ("a", "b", "c")
        assert await service.context("other", later, "c") == ("c",)

    asyncio.run(scenario())


def test_a_request_that_a_deletion_overtook_stores_nothing(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    async def scenario() -> None:
        service = opened(served_models, tmp_path)
        asked = InSession(context=["a"], session_id="s")
        for query in ("b", ""):
            stored = await service.stored("", "s")
            await service.sessions.delete(session_key("", "s"))
            assert not await service.remember("", asked, query, stored)
            assert not await service.is_kept("", "s", stored)
        assert await service.context("", InSession(session_id="s")) == ()
        assert await service.remember("", InSession(), "b", await service.stored("", None))

    asyncio.run(scenario())

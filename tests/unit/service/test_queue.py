"""The queue before a model, how long a request waits, and who answers it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request

from nextquery.service.answering import ClientLeftError, Service, build_service, finished
from nextquery.service.engine import Context, SuggestQuestion
from nextquery.service.queue import Batcher, Job, QueueFullError
from nextquery.service.schemas import BusyError, InSession, ProblemError
from nextquery.service.sessions import session_key
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.suggesters.base import SuggestOptions

from .conftest import refuse

pytestmark = pytest.mark.anyio


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


@asynccontextmanager
async def started(
    model: Any, queue_size: int = 4, batch_size: int = 3, **options: Any
) -> AsyncIterator[Batcher]:
    batcher = Batcher(model, queue_size, batch_size, burst_seconds=0.25, **options)
    batcher.start()
    try:
        yield batcher
    finally:
        await batcher.stop()


@pytest.fixture
def model() -> HeldModel:
    return HeldModel()


@pytest.fixture
async def batcher(model: HeldModel) -> AsyncIterator[Batcher]:
    """A queue of four before the held model, which takes three questions at once."""
    async with started(model) as batcher:
        yield batcher
        model.released.set()


async def begun(batcher: Batcher, model: HeldModel) -> None:
    """Put one question into the model's hands."""
    batcher.submit("k", [0])
    await asyncio.to_thread(model.entered.wait, 120)


async def test_waiting_questions_are_answered_in_batches(
    batcher: Batcher, model: HeldModel
) -> None:
    await begun(batcher, model)
    jobs = [batcher.submit("k", [number])[0] for number in (1, 2, 3, 4)]
    model.released.set()
    assert [await job.answer for job in jobs] == [2, 4, 6, 8]
    assert model.batches == [[0], [1, 2, 3], [4]]


async def test_only_questions_of_one_key_share_a_batch(batcher: Batcher, model: HeldModel) -> None:
    await begun(batcher, model)
    jobs = [batcher.submit(key, [number])[0] for key, number in [("a", 1), ("b", 2), ("a", 3)]]
    model.released.set()
    assert [await job.answer for job in jobs] == [2, 4, 6]
    assert model.batches == [[0], [1, 3], [2]]


async def test_a_full_queue_refuses_at_once(batcher: Batcher, model: HeldModel) -> None:
    await begun(batcher, model)
    batcher.submit("k", [1, 2, 3, 4])
    with pytest.raises(QueueFullError):
        batcher.submit("k", [5])


async def test_a_withdrawn_job_leaves_the_queue(batcher: Batcher, model: HeldModel) -> None:
    await begun(batcher, model)
    left, stays = batcher.submit("k", [1]), batcher.submit("k", [2])
    batcher.withdraw(left)
    assert len(batcher) == 1
    model.released.set()
    assert await stays[0].answer == 4
    assert model.batches == [[0], [2]]


async def test_a_job_that_has_begun_is_finished_though_its_client_left(
    batcher: Batcher, model: HeldModel
) -> None:
    job = batcher.submit("k", [7])
    await asyncio.to_thread(model.entered.wait, 120)
    batcher.withdraw(job)
    model.released.set()
    assert await job[0].answer == 14


async def test_a_batch_is_cancelled_once_all_of_its_clients_are_gone(
    batcher: Batcher, model: HeldModel
) -> None:
    cancelled: list[int] = []
    batcher.on_unwanted = lambda: cancelled.append(len(model.batches))
    await begun(batcher, model)
    jobs = batcher.submit("k", [1, 2])
    model.entered.clear()
    model.released.set()
    model.released = threading.Event()
    await asyncio.to_thread(model.entered.wait, 120)
    batcher.withdraw(jobs[:1], unwanted=True)
    assert not cancelled  # somebody still waits
    batcher.withdraw(jobs[1:], unwanted=True)
    assert len(cancelled) == 1
    model.released.set()
    [later] = batcher.submit("k", [3])
    assert await later.answer == 6
    batcher.withdraw([later], unwanted=True)
    assert len(cancelled) == 1  # nothing is being computed


async def test_an_error_reaches_those_who_asked_and_no_one_else() -> None:
    def fails_on_zero(questions: Sequence[Any]) -> list[float]:
        return [1 / question for question in questions]

    async with started(fails_on_zero) as batcher:
        bad = batcher.submit("bad", [0])[0]
        good = batcher.submit("good", [4])[0]
        with pytest.raises(ZeroDivisionError):
            await bad.answer
        assert await good.answer == 0.25


async def test_a_costly_question_leaves_no_room_for_others_in_its_batch(
    batcher: Batcher, model: HeldModel
) -> None:
    await begun(batcher, model)
    jobs = [batcher.submit("k", [cost], [float(cost)])[0] for cost in (1, 5, 2)]
    model.released.set()
    assert [await job.answer for job in jobs] == [2, 10, 4]
    assert model.batches == [[0], [1, 2], [5]], "three ordinary ones make a batch"


async def test_an_idle_model_is_checked() -> None:
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look() -> None:
        loop.call_soon_threadsafe(looked.set)

    async with started(list) as batcher:
        batcher.on_idle = look
        await asyncio.wait_for(looked.wait(), 120)
        assert await batcher.submit("k", [2])[0].answer == 2


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


@pytest.fixture
def stepped() -> SteppedModel:
    return SteppedModel()


@pytest.fixture
async def queue(stepped: SteppedModel) -> AsyncIterator[Batcher]:
    """Two jobs per batch, a queue of nine, and a burst of a quarter of the model's second."""
    async with started(stepped, 9, 2, clock=lambda: stepped.now) as batcher:
        yield batcher
        stepped.finish_all()


async def overload(queue: Batcher, stepped: SteppedModel, now: float) -> list[Job]:
    """Six jobs: as many wait after the first batch, which ends at `now`, as before."""
    jobs = queue.submit("k", [0, 1, 2, 3])  # a burst is taken whole
    await stepped.begun()
    jobs += queue.submit("k", [4, 5])
    await stepped.step(now)
    return jobs


async def test_an_overload_accepts_only_jobs_that_begin_soon_and_ends_without_refusals(
    queue: Batcher, stepped: SteppedModel
) -> None:
    jobs = await overload(
        queue, stepped, 2.0
    )  # a batch takes 2 s, and as many wait as before: an overload
    stepped.now = 2.9
    with pytest.raises(QueueFullError) as refused:
        queue.submit("k", [6])
    assert refused.value.retry_after >= 1.1  # what is left of this batch, at least
    await stepped.step(3.5)
    stepped.now = 3.9
    with pytest.raises(QueueFullError):
        queue.submit("k", [6])  # nobody waits, but the last batch has hardly begun
    stepped.now = 4.75
    jobs += queue.submit("k", [6])  # its batch begins soon
    await stepped.step(5.5)
    jobs += queue.submit("k", [7] * 9)  # nobody was refused for a second: it is over
    stepped.finish_all()
    assert len(await asyncio.gather(*(job.answer for job in jobs))) == 16


async def test_an_overload_is_over_when_the_model_has_idled(
    queue: Batcher, stepped: SteppedModel
) -> None:
    jobs = await overload(queue, stepped, 0.5)  # as many wait as before: an overload
    with pytest.raises(QueueFullError):
        queue.submit("k", [6])
    stepped.finish_all()
    await asyncio.gather(*(job.answer for job in jobs))
    await asyncio.sleep(0)
    stepped.now += 0.4  # more than .7 of the half second of a batch
    jobs = queue.submit("k", [7] * 9)
    assert len(await asyncio.gather(*(job.answer for job in jobs))) == 9


async def test_a_burst_that_is_being_worked_off_is_not_an_overload(
    queue: Batcher, stepped: SteppedModel
) -> None:
    jobs = queue.submit("k", [0, 1, 2, 3, 4, 5, 6])
    await stepped.begun()  # five wait
    for number in range(3):  # one more comes with every batch, two go
        await stepped.step(2.0 * (number + 1))
        jobs += queue.submit("k", [7 + number])
    stepped.finish_all()
    assert len(await asyncio.gather(*(job.answer for job in jobs))) == 10


async def test_clients_that_keep_the_model_just_busy_are_not_refused() -> None:
    now = [0.0]

    def takes_two_seconds(questions: Sequence[Any]) -> list[Any]:
        now[0] += 2.0
        return list(questions)

    async with started(takes_two_seconds, 9, 2, clock=lambda: now[0]) as batcher:

        async def client() -> None:
            for number in range(20):
                assert await batcher.submit("k", [number])[0].answer == number

        await asyncio.gather(*(client() for _ in range(4)))  # two batches: one waits


async def test_a_late_batch_is_expected_to_take_twice_its_delay(
    queue: Batcher, stepped: SteppedModel
) -> None:
    jobs = await overload(queue, stepped, 0.5)  # an overload
    await stepped.step(1.0)  # the last batch has begun, should be done at 1.5, and nobody waits
    stepped.now = 1.1
    with pytest.raises(QueueFullError):
        queue.submit("k", [6])
    stepped.now = 1.9  # late by .4: more than most of a batch
    with pytest.raises(QueueFullError):
        queue.submit("k", [7])
    stepped.finish_all()
    await asyncio.gather(*(job.answer for job in jobs), return_exceptions=True)


async def test_an_overload_refuses_jobs_that_waited_for_two_batches(
    queue: Batcher, stepped: SteppedModel
) -> None:
    jobs = await overload(queue, stepped, 2.0)  # an overload: 4 and 5 wait since 0
    stepped.now = 9.0  # this batch takes 7 s: other programs keep the machine busy
    stepped.finish_all()
    assert [await job.answer for job in jobs[:4]] == [0, 1, 2, 3]
    for job in jobs[4:]:
        with pytest.raises(QueueFullError):
            await job.answer
    queue.withdraw(jobs)


async def test_after_a_pause_without_an_overload_nobody_is_refused(
    queue: Batcher, stepped: SteppedModel
) -> None:
    jobs = queue.submit("k", [0, 1])
    await stepped.begun()
    jobs += queue.submit("k", [2])
    stepped.now = 60.0
    stepped.finish_all()
    assert [await job.answer for job in jobs] == [0, 1, 2]


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
async def test_after_the_budget_only_a_patient_client_waits_for_what_has_begun(
    started: bool,
) -> None:
    asked = job()
    asked.started = started
    if started:  # what nobody has begun is never answered here, however slow the machine
        asyncio.get_running_loop().call_later(0.3, asked.answer.set_result, 1)
    assert await finished(LeavingClient().request, [asked], 0.05, patient=True) == started
    other = job()
    other.started = started
    assert not await finished(LeavingClient().request, [other], 0.05, patient=False)


async def test_a_client_that_leaves_is_noticed_at_once() -> None:
    client = LeavingClient()
    asyncio.get_running_loop().call_later(0.01, client.leaves.set)
    with pytest.raises(ClientLeftError):  # otherwise it would wait for an hour
        await finished(client.request, [job()], 3600.0, patient=True)


QUESTION = SuggestQuestion(("red shoes",), SuggestOptions(n=1))


@pytest.fixture
def service(
    request: pytest.FixtureRequest, served_models: dict[str, Path], tmp_path: Path
) -> Service:
    """A service, with a fallback where the parameter says so; its model is not loaded yet."""
    models = (NamedModel("adj", served_models["adjacency"]),)
    fallback = served_models["popularity"] if getattr(request, "param", False) else None
    return build_service(ServiceSettings(models, tmp_path, fallback=fallback))


async def test_before_the_models_are_loaded_it_is_503(service: Service) -> None:
    with pytest.raises(BusyError):
        service.model(None)
    with pytest.raises(ProblemError, match="there are: adj"):
        service.model("other")
    await service.load()
    assert service.model(None).name == "adj"


async def test_a_bad_folder_at_the_start_is_kept_as_the_failure(tmp_path: Path) -> None:
    service = build_service(ServiceSettings((NamedModel("m", tmp_path / "none"),), tmp_path))
    await service.load()
    assert "none" in str(service.failure)


@pytest.mark.parametrize("service", [False, True], indirect=True, ids=["alone", "fallback"])
async def test_a_full_queue_is_503_or_the_fallbacks_answer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.load()
    service.models.start()
    model = service.model(None)
    refuse(model, monkeypatch)
    asked = service.suggest(LeavingClient().request, model, [QUESTION])
    if service.models.fallback:
        answered = await asked
        assert (answered.fallback, answered.model) == (True, "popularity")
    else:
        with pytest.raises(BusyError) as refused:
            await asked
        assert refused.value.headers == {"Retry-After": "3"}
    await service.models.stop()


async def test_a_job_refused_after_it_was_accepted_is_503(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.load()
    model = service.model(None)
    submit = model.batcher.submit

    def late(*arguments: Any) -> Any:
        jobs = submit(*arguments)
        for job in jobs:
            job.started = True
            job.answer.set_exception(QueueFullError(1.0))
        return jobs

    monkeypatch.setattr(model.engine, "immediate", False)
    monkeypatch.setattr(model.batcher, "submit", late)
    with pytest.raises(BusyError):
        await service.suggest(LeavingClient().request, model, [QUESTION])


async def test_a_session_grows_and_blank_queries_do_not_count(service: Service) -> None:
    asked, later = InSession(context=["a", " "], session_id="s"), InSession(session_id="s")

    async def session(query: str = "", owner: str = "") -> Context:
        return (await service.visit(owner, later)).session(query)

    assert (await service.visit("", asked)).session("b") == ("a", "b")
    assert await session() == (), "nothing is stored before the answer"
    for query in ("b", " "):
        assert await service.remember(await service.visit("", asked), query)
    assert await session(" ") == ("a", "b")
    assert await session("c") == ("a", "b", "c")
    assert await session("c", owner="other") == ("c",)


async def test_a_request_that_a_deletion_overtook_stores_nothing(service: Service) -> None:
    asked = InSession(context=["a"], session_id="s")
    for query in ("b", ""):
        visit = await service.visit("", asked)
        await service.sessions.delete(session_key("", "s"))
        assert not await service.remember(visit, query)
        assert not await service.is_kept(visit)
    assert (await service.visit("", InSession(session_id="s"))).session() == ()
    assert await service.remember(await service.visit("", InSession()), "b")

"""How a request gets its answer: who gives it, and when it is 503."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nextquery.service.answering import Service, build_service
from nextquery.service.engine import SuggestQuestion
from nextquery.service.queue import QueueFullError
from nextquery.service.schemas import BusyError, InSession, ProblemError
from nextquery.service.sessions import session_key
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.suggesters.asking import SuggestOptions

QUESTION = SuggestQuestion(("red shoes",), SuggestOptions(n=1))


class Client:
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
        model, request = service.model(None), Client()

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
            await service.suggest(Client(), model, [QUESTION])  # type: ignore[arg-type]

    asyncio.run(scenario())


def test_the_kill_switch_gives_empty_lists(served_models: dict[str, Path], tmp_path: Path) -> None:
    async def scenario() -> None:
        switch = tmp_path / "off"
        switch.touch()
        service = opened(served_models, tmp_path, kill_switch=switch)
        await service.load()
        answered = await service.suggest(Client(), service.model(None), [QUESTION])  # type: ignore[arg-type]
        assert answered.results == [[]]

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

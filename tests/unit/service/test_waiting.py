"""How long a request waits, with jobs that the test answers itself."""

import asyncio
from typing import Any

import pytest
from fastapi import Request

from nextquery.service.answering import ClientLeftError, finished
from nextquery.service.queue import Job


class Client:
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


def test_an_answer_in_time() -> None:
    async def scenario() -> None:
        asked = job()
        asyncio.get_running_loop().call_later(0.01, asked.answer.set_result, 1)
        assert await finished(Client().request, [asked], 60.0, patient=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("started", [False, True])
def test_after_the_budget_only_a_patient_client_waits_for_what_has_begun(started: bool) -> None:
    async def scenario() -> None:
        asked = job()
        asked.started = started
        if started:  # what nobody has begun is never answered here, however slow the machine
            asyncio.get_running_loop().call_later(0.3, asked.answer.set_result, 1)
        assert await finished(Client().request, [asked], 0.05, patient=True) == started
        other = job()
        other.started = started
        assert not await finished(Client().request, [other], 0.05, patient=False)

    asyncio.run(scenario())


def test_a_client_that_leaves_is_noticed_at_once() -> None:
    async def scenario() -> None:
        client = Client()
        asyncio.get_running_loop().call_later(0.01, client.leaves.set)
        with pytest.raises(ClientLeftError):  # otherwise it would wait for an hour
            await finished(client.request, [job()], 3600.0, patient=True)

    asyncio.run(scenario())

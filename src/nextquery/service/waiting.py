"""How long a request waits for its model: until the answer, the end of its budget, or its client's.

Knows HTTP only as a client that may be gone.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import Request

from nextquery.service.models.request_batching import Job


class ClientLeftError(Exception):
    """The client closed the connection; nobody waits for the answer."""


async def finished(request: Request, jobs: Sequence[Job], budget: float, patient: bool) -> bool:
    """Wait for jobs until they are done, the budget is spent, or the client is gone.

    What the model has begun is worth waiting for, unless somebody else could answer: then the
    caller is not `patient`.
    """
    if all(job.answer.done() for job in jobs):
        return True
    deadline: float | None = time.monotonic() + budget
    leaving = asyncio.ensure_future(_gone(request.receive))
    try:
        while pending := [job for job in jobs if not job.answer.done()]:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                if not patient or not all(job.started for job in pending):
                    return False
                deadline = left = None
            waiting = {leaving, *(job.answer for job in pending)}
            await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                raise ClientLeftError
        return True
    finally:
        leaving.cancel()


async def _gone(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

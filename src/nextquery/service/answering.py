"""How a request gets its answer: session, queue, time budget, fallback, clients that leave.

The one place where waiting is decided. Knows HTTP only as a client that may be gone.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from nextquery.service.http.keys import KeyRing, RateLimit
from nextquery.service.http.problems import BusyError, ProblemError
from nextquery.service.http.schemas import InSession
from nextquery.service.models.batching import Job, QueueFullError
from nextquery.service.models.isolation import ModelEndedError
from nextquery.service.models.served_model import Models, ServedModel, SuggestKey
from nextquery.service.operation import logging
from nextquery.service.operation.control import Control
from nextquery.service.operation.feedback_log import FeedbackLog
from nextquery.service.operation.metrics import Metrics
from nextquery.service.sessions.stores import (
    SessionStore,
    SessionsUnavailableError,
    joined,
    session_key,
)
from nextquery.service.settings import ServiceSettings


@dataclass
class Service:
    """The parts of a running service, as the routes use them."""

    settings: ServiceSettings
    metrics: Metrics
    models: Models
    sessions: SessionStore
    control: Control
    keys: KeyRing
    admin_keys: KeyRing
    rate: RateLimit
    feedback: FeedbackLog | None
    draining: bool = False
    failure: Exception | None = None
    """Why the models could not be loaded at the start; the process then ends."""


class ClientLeftError(Exception):
    """The client closed the connection; nobody waits for the answer."""


@dataclass(frozen=True)
class Answered:
    """Results with the name of the model that gave them."""

    results: list[Any]
    model: str
    fallback: bool = False


def chosen_model(service: Service, name: str | None) -> ServedModel:
    """The model that a request names, loaded."""
    model = service.models.served.get(name or service.models.default)
    if model is None:
        known = ", ".join(service.models.served)
        raise ProblemError(422, f"model: is not served here; there are: {known}")
    if model.engine is None:
        raise BusyError("The model is still being loaded.", 2)
    return model


async def session_context(
    service: Service, owner: str, asked: InSession, query: str | None = None
) -> tuple[str, ...]:
    """The session so far, `query` added if there is one; without a store what the request says."""
    own = [text for text in asked.context if text.strip()]
    new = [query] if query and query.strip() else []
    if asked.session_id is None:
        return tuple(joined([*own, *new]))
    name = session_key(owner, asked.session_id)
    try:
        if new:
            return tuple(await service.sessions.append(name, new[0], own))
        return tuple(await service.sessions.read(name) or joined(own))
    except SessionsUnavailableError:
        service.metrics.sessions_unavailable.inc()
        return tuple(joined([*own, *new]))


async def ask(
    service: Service,
    request: Request,
    model: ServedModel,
    key: Hashable,
    questions: Sequence[Any],
    patient: bool = True,
) -> Answered:
    """Answer questions with a model; its lateness or its full queue is a 503.

    What the model has begun is worth waiting for, unless somebody else could answer: then the
    caller is not `patient`.
    """
    try:
        jobs = model.submit(key, questions)
    except QueueFullError as full:
        service.metrics.refused.labels(model.name).inc()
        raise BusyError("Too many requests wait for the model.", full.retry_after, "busy") from None
    try:
        in_time = await _finished(request, jobs, service.settings.budget_ms / 1000, patient)
    finally:
        model.batcher.withdraw([job for job in jobs if not job.answer.done()])
    if not in_time:
        service.metrics.refused.labels(model.name).inc()
        raise BusyError(
            "The model did not come to this request in time.", model.batcher.expected_wait, "late"
        )
    try:
        return Answered([job.answer.result() for job in jobs], model.name)
    except ModelEndedError as error:
        logging.log_failure("a model's process ended", error, model=model.name)
        raise BusyError("The model is being started again.", 2, "ended") from None


async def suggest(
    service: Service,
    request: Request,
    model: ServedModel,
    key: SuggestKey,
    contexts: Sequence[tuple[str, ...]],
) -> Answered:
    """Lists for contexts: remembered, from the model within the budget, or from the fallback."""
    known = [model.remembered(key, context) for context in contexts]
    missing = [context for context, found in zip(contexts, known, strict=True) if found is None]
    if not missing:
        return Answered(known, model.name)
    fallback = service.models.fallback if model.name == service.models.default else None
    try:
        answered = await ask(service, request, model, key, missing, patient=fallback is None)
    except BusyError as refusal:
        if fallback is None or fallback.engine is None:
            raise
        service.metrics.fallbacks.labels(refusal.reason).inc()
        answered = await ask(service, request, fallback, key, contexts)
        return Answered(answered.results, fallback.engine.kind, fallback=True)
    fresh = iter(answered.results)
    return Answered([next(fresh) if found is None else found for found in known], model.name)


async def _finished(request: Request, jobs: list[Job], budget: float, patient: bool) -> bool:
    """Wait for jobs until they are done, the budget is spent, or the client is gone."""
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

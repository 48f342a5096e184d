"""The service: its parts, and how a request gets its answer from them.

A route asks for the session, then for answers; here it is decided who gives them: memory, the model
through its queue, or the fallback, and when it is 503 instead.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from fastapi import Request

from nextquery.errors import InputError, NextqueryError
from nextquery.records import Suggestion
from nextquery.service.http.keys import (
    ADMIN_KEYS_VARIABLE,
    KEYS_VARIABLE,
    KeyRing,
    RateLimit,
    read_keys,
)
from nextquery.service.http.problems import BusyError, ProblemError, too_many
from nextquery.service.http.schemas import InSession
from nextquery.service.models.cost import cost
from nextquery.service.models.isolation import ModelEndedError
from nextquery.service.models.questions import (
    Answer,
    Context,
    Question,
    SuggestOptions,
    SuggestQuestion,
)
from nextquery.service.models.request_batching import QueueFullError
from nextquery.service.models.served_model import Models, ServedModel
from nextquery.service.operation import logging
from nextquery.service.operation.control import Control
from nextquery.service.operation.feedback_log import FeedbackLog
from nextquery.service.operation.prometheus import Metrics
from nextquery.service.sessions.stores import (
    SessionStore,
    SessionsUnavailableError,
    joined,
    open_sessions,
    session_key,
)
from nextquery.service.settings import ServiceSettings
from nextquery.service.waiting import finished
from nextquery.suggesters.rescue import rescued


@dataclass(frozen=True)
class Answered(Generic[Answer]):
    """Results with the name of the model that gave them."""

    results: list[Answer]
    model: str
    fallback: bool = False


@dataclass
class Service:
    """A running service, as the routes use it."""

    settings: ServiceSettings
    metrics: Metrics
    models: Models
    sessions: SessionStore
    control: Control
    keys: KeyRing
    admin_keys: KeyRing
    rate: RateLimit
    feedback: FeedbackLog | None
    on_ready: Callable[[], None] | None = None
    """Called when the models are loaded for the first time."""
    draining: bool = False
    failure: Exception | None = None
    """Why the models could not be loaded at the start; the process then ends."""

    async def load(self) -> None:
        """Load or reload the models; a refusal is logged and what was there stays."""
        try:
            versions = await self.models.reload()
        except NextqueryError as error:
            # The messages of expected errors name files and folders, never queries.
            logging.log_failure("models refused", error, reason=str(error))
            if not self.models.ready:
                self.failure = error
        else:
            logging.log_event("models loaded", versions=versions)
            if self.on_ready is not None:
                self.on_ready()

    def stop_soon(self) -> None:
        """Report as not ready, and wait less long for models that do not answer."""
        self.draining = True
        self.models.hurry()

    def model(self, name: str | None) -> ServedModel:
        """The model that a request names, loaded."""
        model = self.models.served.get(name or self.models.default)
        if model is None:
            known = ", ".join(self.models.served)
            raise ProblemError(422, f"model: is not served here; there are: {known}")
        if model.engine is None:
            raise BusyError("The model is still being loaded.", 2)
        return model

    async def context(self, owner: str, asked: InSession, query: str | None = None) -> Context:
        """The session so far, `query` added; without a store what the request says itself."""
        own = [text for text in asked.context if text.strip()]
        new = [query] if query and query.strip() else []
        if asked.session_id is None:
            return tuple(joined([*own, *new]))
        name = session_key(owner, asked.session_id)
        try:
            if new:
                return tuple(await self.sessions.append(name, new[0], own))
            return tuple(await self.sessions.read(name) or joined(own))
        except SessionsUnavailableError:
            self.metrics.sessions_unavailable.inc()
            return tuple(joined([*own, *new]))

    def charge(self, request: Request, questions: Sequence[Question[Any]]) -> None:
        """Take from the caller's rate what the answers cost; one was taken at the door."""
        name = request.scope.get("rate_name", "")
        if wait := self.rate.wait(name, sum(map(cost, questions)), paid=1.0):
            raise too_many(wait)

    async def suggest(
        self, request: Request, model: ServedModel, questions: Sequence[SuggestQuestion]
    ) -> Answered[list[Suggestion]]:
        """Lists, after a query that found nothing led by what the rescue says."""
        answered = await self._lists(request, model, questions)
        rescue = self.models.rescue
        failed = [place for place, each in enumerate(questions) if each.found_nothing]
        if rescue is None or not failed or self.control.killed:
            return answered
        asked = [
            SuggestQuestion(questions[place].context, SuggestOptions(questions[place].options.n))
            for place in failed
        ]
        results = list(answered.results)
        try:
            for place, found in zip(failed, await self._each(request, rescue, asked), strict=True):
                results[place] = rescued(results[place], found, questions[place].options.n)
        except BusyError:
            return answered
        return replace(answered, results=results)

    async def _each(
        self, request: Request, model: ServedModel, questions: Sequence[SuggestQuestion]
    ) -> list[list[Suggestion]]:
        """The lists of questions that may differ in their options."""
        return [(await self._in_turns(request, model, [each]))[0] for each in questions]

    async def _lists(
        self, request: Request, model: ServedModel, questions: Sequence[SuggestQuestion]
    ) -> Answered[list[Suggestion]]:
        """Lists: remembered, from the model within the budget, or from the fallback."""
        if self.control.killed:
            return Answered([[] for _ in questions], model.name)
        known = {question: model.remembered(question) for question in questions}
        missing = [question for question, found in known.items() if found is None]
        fallback = self.models.fallback if model.name == self.models.default else None
        try:
            fresh = await self._in_turns(request, model, missing, patient=fallback is None)
        except BusyError as refusal:
            if fallback is None or fallback.engine is None:
                raise
            self.metrics.fallbacks.labels(refusal.reason).inc()
            results = await self._in_turns(request, fallback, questions)
            return Answered(results, fallback.engine.kind, fallback=True)
        found = {**known, **dict(zip(missing, fresh, strict=True))}
        return Answered([found[question] or [] for question in questions], model.name)

    async def ask_in_background(
        self, model: ServedModel, question: SuggestQuestion
    ) -> list[Suggestion] | None:
        """A list that no visitor waits for; None where the model is busy, slow or fails."""
        try:
            [job] = model.submit([question])
        except QueueFullError:
            return None
        try:
            await asyncio.wait([job.answer], timeout=self.settings.batch_seconds)
        finally:
            model.batcher.withdraw([] if job.answer.done() else [job])
        if not job.answer.done() or job.answer.cancelled() or job.answer.exception() is not None:
            return None
        found: list[Suggestion] = job.answer.result()
        return found

    async def _in_turns(
        self,
        request: Request,
        model: ServedModel,
        questions: Sequence[Question[Answer]],
        *,
        patient: bool = True,
    ) -> list[Answer]:
        """Ask no more than a batch at a time, so that a long request shares the queue."""
        size, results = self.settings.batch_size, list[Answer]()
        for start in range(0, len(questions), size):
            turn = questions[start : start + size]
            results += (await self.ask(request, model, turn, patient=patient)).results
        return results

    async def ask(
        self,
        request: Request,
        model: ServedModel,
        questions: Sequence[Question[Answer]],
        *,
        patient: bool = True,
    ) -> Answered[Answer]:
        """Answers of a model; its lateness or its full queue is a 503."""
        try:
            jobs = model.submit(questions)
        except QueueFullError as full:
            raise self._busy(model, full) from None
        unwanted = True
        try:
            in_time = await finished(request, jobs, self.settings.budget_ms / 1000, patient)
            unwanted = False
        finally:  # gone, or cancelled as a whole
            pending = [job for job in jobs if not job.answer.done()]
            model.batcher.withdraw(pending, unwanted=unwanted)
        if not in_time:
            self.metrics.refused.labels(model.name).inc()
            detail = "The model did not come to this request in time."
            raise BusyError(detail, model.batcher.expected_wait, "late")
        try:
            return Answered([job.answer.result() for job in jobs], model.name)
        except QueueFullError as full:  # accepted, but the model came to it too late
            raise self._busy(model, full) from None
        except ModelEndedError as error:
            logging.log_failure("a model's process ended", error, model=model.name)
            raise BusyError("The model is being started again.", 2, "ended") from None
        except InputError as error:
            raise ProblemError(422, str(error)) from None

    def _busy(self, model: ServedModel, full: QueueFullError) -> BusyError:
        self.metrics.refused.labels(model.name).inc()
        return BusyError("Too many requests wait for the model.", full.retry_after, "busy")


def build_service(settings: ServiceSettings) -> Service:
    """The parts of a service; the models are not loaded yet."""
    metrics = Metrics()
    return Service(
        settings=settings,
        metrics=metrics,
        models=Models(settings, metrics),
        sessions=open_sessions(settings),
        control=Control(settings.control, settings.kill_switch),
        keys=read_keys(settings.keys_file, KEYS_VARIABLE),
        admin_keys=read_keys(settings.admin_keys_file, ADMIN_KEYS_VARIABLE),
        rate=RateLimit(settings.rate_per_second),
        feedback=FeedbackLog(settings.feedback) if settings.feedback else None,
    )

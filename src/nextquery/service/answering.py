"""How a request gets its answer: session, rate, model, fallback."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request

from nextquery.errors import InputError, NextqueryError
from nextquery.records import Suggestion
from nextquery.service import monitoring
from nextquery.service.control import Control
from nextquery.service.engine import (
    Answer,
    Context,
    Question,
    ScoreQuestion,
    SuggestQuestion,
)
from nextquery.service.feedback import FeedbackLog
from nextquery.service.histories import History, ReturningVisitors, open_histories
from nextquery.service.keys import ADMIN_KEYS_VARIABLE, KEYS_VARIABLE, KeyRing, RateLimit, read_keys
from nextquery.service.monitoring import Metrics
from nextquery.service.queue import Job, QueueFullError, cost
from nextquery.service.schemas import BusyError, InSession, ProblemError, rate_exceeded
from nextquery.service.served_models import Models, ServedModel
from nextquery.service.sessions import (
    SessionStore,
    SessionsUnavailableError,
    StoredSession,
    joined,
    open_sessions,
    session_key,
)
from nextquery.service.settings import ServiceSettings
from nextquery.service.worker import ModelEndedError
from nextquery.suggesters.base import SuggestOptions
from nextquery.suggesters.rescue import rescued
from nextquery.suggesters.rewriting import QueryRewriter


class ClientLeftError(Exception):
    """The client closed the connection and does not wait for the answer."""


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


@dataclass(frozen=True)
class Answered:
    """Lists with the name of the model that made them."""

    results: list[list[Suggestion]]
    model: str
    fallback: bool = False


@dataclass(frozen=True)
class Visit:
    """Who asks, and the session when the request began."""

    owner: str
    """The name of the API key; empty without keys."""
    session_id: str | None
    context: Context
    """The earlier queries that the request brought."""
    stored: StoredSession

    @property
    def trial_key(self) -> str:
        """What a trial assigns the visitor by; a new one for every request without a session."""
        return f"{self.owner}\0{self.session_id or uuid.uuid4()}"

    def session(self, query: str = "") -> Context:
        """The session so far, then `query`; what the request brought if nothing is stored."""
        return tuple(joined([*(self.stored.queries or self.context), *_typed([query])]))


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
    visitors: ReturningVisitors
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
            monitoring.log_failure("models refused", error, reason=str(error))
            if not self.models.ready:
                self.failure = error
        else:
            monitoring.log_event("models loaded", versions=versions)
            if self.on_ready is not None:
                self.on_ready()

    def stop_soon(self) -> None:
        """Report as not ready, and wait less long for models that do not answer."""
        self.draining = True
        self.models.shorten_timeout()

    def model(self, name: str | None) -> ServedModel:
        """The model that a request names, loaded."""
        model = self.models.served.get(name or self.models.default)
        if model is None:
            names = ", ".join(self.models.served)
            raise ProblemError(422, f"model: is not served here; there are: {names}")
        if model.engine is None:
            raise BusyError("The model is still being loaded.", 2)
        return model

    def rewriter(self, name: str | None) -> QueryRewriter | None:
        """What corrects texts before the model that a request names; None while it is loaded."""
        model = self.models.served.get(name or self.models.default)
        return model.engine.rewriter if model is not None and model.engine is not None else None

    async def visit(
        self, owner: str, body: InSession, stored: StoredSession | None = None
    ) -> Visit:
        """Who asks; the session is read unless it is given, and empty if no store answers."""
        if stored is None and body.session_id is not None:
            try:
                stored = await self.sessions.read(session_key(owner, body.session_id))
            except SessionsUnavailableError:
                self.metrics.sessions_unavailable.inc()
        context = tuple(_typed(body.context))
        return Visit(owner, body.session_id, context, stored or StoredSession())

    async def remember(self, visit: Visit, query: str) -> bool:
        """Add the query of an answered request to its session.

        False, and nothing is stored, if the session was deleted since the request began.
        """
        if visit.session_id is None:
            return True
        if not query.strip():
            return await self.is_kept(visit)
        name, deletions = session_key(visit.owner, visit.session_id), visit.stored.deletions
        try:
            return await self.sessions.append(name, query, visit.context, deletions)
        except SessionsUnavailableError:
            self.metrics.sessions_unavailable.inc()
            return True

    async def is_kept(self, visit: Visit) -> bool:
        """Whether the session was not deleted since the request began, if the store answers."""
        if visit.session_id is None:
            return True
        try:
            now = await self.sessions.read(session_key(visit.owner, visit.session_id))
        except SessionsUnavailableError:
            return True
        return now.deletions == visit.stored.deletions

    def again(
        self, question: SuggestQuestion, history: History | None, shown: Sequence[Suggestion]
    ) -> list[Suggestion] | None:
        """The visitor's earlier queries that are likely now; None where no history is known."""
        if history is None:
            return None
        return [] if self.control.killed else self.visitors.again(question.session, history, shown)

    def charge(
        self,
        request: Request,
        questions: Sequence[Question[Any]],
        session_id: str | None = None,
        *,
        batch: bool = False,
    ) -> None:
        """Take what the answers cost from the rate of the caller's key and of its visitor.

        Of the key's rate, and of a visitor's who is known by address, 1 was taken before.
        """
        visitor = request.scope.get("visitor", "")
        visitor_paid = 1.0 if visitor else 0.0
        if not self.settings.trusted_proxies:
            visitor = session_id or ""
        price, most = sum(map(cost, questions)), self.rate.most(visitor)
        # A single list passes at any rate, and is charged as `most`.
        if price > most and (batch or isinstance(questions[0], ScoreQuestion)):
            bound = f"This request costs {price:.1f}; the rate allows at most {most:.1f} at once."
            raise ProblemError(422, f"{bound} Send it as several smaller requests.")
        name = request.scope.get("rate_name", "")
        if wait := self.rate.wait(name, price, 1.0, visitor, visitor_paid):
            raise rate_exceeded(wait)

    async def suggest(
        self,
        request: Request,
        model: ServedModel,
        questions: Sequence[SuggestQuestion],
        *,
        in_trial: bool = False,
    ) -> Answered:
        """Lists, after a query that found nothing led by what the rescue says.

        The fallback may answer for the default model and, `in_trial`, for any.
        """
        answered = await self._lists(request, model, questions, in_trial=in_trial)
        rescue = self.models.rescue
        failed = [index for index, question in enumerate(questions) if question.found_nothing]
        if rescue is None or not failed or self.control.killed:
            return answered
        results = list(answered.results)
        try:
            for index in failed:
                context, n = questions[index].context, questions[index].options.n
                question = SuggestQuestion(context, SuggestOptions(n))
                [suggestions] = await self.ask(request, rescue, [question])
                results[index] = rescued(results[index], suggestions, n)
        except BusyError:
            return answered
        return replace(answered, results=results)

    async def _lists(
        self,
        request: Request,
        model: ServedModel,
        questions: Sequence[SuggestQuestion],
        *,
        in_trial: bool,
    ) -> Answered:
        """Lists from the model within the budget, or from the fallback."""
        if self.control.killed:
            return Answered([[] for _ in questions], model.name)
        has_fallback = in_trial or model.name == self.models.default
        fallback = self.models.fallback if has_fallback else None
        try:
            results = await self._in_turns(request, model, questions, patient=fallback is None)
        except BusyError as refusal:
            if fallback is None or fallback.engine is None:
                raise
            self.metrics.fallbacks.labels(refusal.reason).inc()
            results = await self._in_turns(request, fallback, questions)
            return Answered(results, fallback.engine.facts.kind, fallback=True)
        return Answered(results, model.name)

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
        suggestions: list[Suggestion] = job.answer.result()
        return suggestions

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
            results += await self.ask(request, model, turn, patient=patient)
        return results

    async def ask(
        self,
        request: Request,
        model: ServedModel,
        questions: Sequence[Question[Answer]],
        *,
        patient: bool = True,
    ) -> list[Answer]:
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
            return [job.answer.result() for job in jobs]
        except QueueFullError as full:  # accepted, but the model came to it too late
            raise self._busy(model, full) from None
        except ModelEndedError as error:
            monitoring.log_failure("a model's process ended", error, model=model.name)
            raise BusyError("The model is being started again.", 2, "ended") from None
        except InputError as error:
            raise ProblemError(422, str(error)) from None

    def _busy(self, model: ServedModel, full: QueueFullError) -> BusyError:
        self.metrics.refused.labels(model.name).inc()
        return BusyError("Too many requests wait for the model.", full.retry_after, "busy")


def _typed(queries: Sequence[str]) -> list[str]:
    return [query for query in queries if query.strip()]


def build_service(settings: ServiceSettings) -> Service:
    """The parts of a service; the models are not loaded yet."""
    metrics = Metrics()
    visitors = ReturningVisitors(settings, open_histories(settings))
    folder = settings.feedback
    return Service(
        settings=settings,
        metrics=metrics,
        models=Models(settings, metrics, visitors),
        sessions=open_sessions(settings),
        control=Control(settings.control, settings.kill_switch),
        keys=read_keys(settings.keys_file, KEYS_VARIABLE),
        admin_keys=read_keys(settings.admin_keys_file, ADMIN_KEYS_VARIABLE),
        rate=RateLimit(settings.rate_per_second),
        feedback=FeedbackLog(folder, settings.feedback_mb) if folder else None,
        visitors=visitors,
    )

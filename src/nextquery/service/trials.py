"""Which model makes a visitor's list, and the record of it: interleaving, splits, shadows.

A request that names a model takes no part in a trial. Every list is recorded where feedback is, so
that accepted suggestions can be attributed to their model.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request

from nextquery.feedback.assignment import split_arm, team_draft
from nextquery.feedback.events import (
    Arm,
    FeedbackEvent,
    ListedSuggestion,
    ServedList,
    ShadowList,
    Trial,
    source_of,
)
from nextquery.records import Suggestion
from nextquery.service import monitoring
from nextquery.service.answering import ClientLeftError, Service, Visit
from nextquery.service.engine import SuggestQuestion
from nextquery.service.feedback import FeedbackLostError, origin
from nextquery.service.schemas import BusyError, ProblemError


@dataclass(frozen=True)
class Chosen:
    """The models that make a list together, and the trial in which they do."""

    models: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True)
class MadeList:
    """A list as it is served; `teams` has the name of the model that filled each place."""

    query_id: str
    suggestions: list[Suggestion]
    model: str
    fallback: bool
    teams: tuple[str, ...]
    trial: Trial | None = None


class Trials:
    """Makes lists by the service's settings and records them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._shadows: set[asyncio.Task[None]] = set()

    def choose(self, name: str | None, visit: Visit) -> Chosen:
        """Which models make a list for a visitor, who may have named one."""
        settings = self._service.settings
        if name is None and settings.interleave:
            return Chosen(settings.interleave, "interleave")
        if name is None and settings.split and visit.session_id is not None:
            return Chosen((split_arm(settings.split, visit.trial_key),), "split")
        return Chosen((name or self._service.models.default,))

    async def lists(
        self,
        request: Request,
        chosen: Chosen,
        visits: Sequence[tuple[SuggestQuestion, Visit]],
    ) -> list[MadeList]:
        """A list for each question; all questions are of one group."""
        if chosen.kind == "interleave":
            return await self._interleaved(request, chosen, visits)
        if chosen.kind == "split":
            return await self._split(request, chosen, visits)
        return await self._alone(request, chosen.models[0], visits)

    def stop(self) -> None:
        """Cancel the questions to the shadow model."""
        for task in self._shadows:
            task.cancel()

    async def _alone(
        self,
        request: Request,
        name: str,
        visits: Sequence[tuple[SuggestQuestion, Visit]],
        trial: Trial | None = None,
        *,
        in_trial: bool = False,
    ) -> list[MadeList]:
        """Lists of one model; of one that the visitor did not name the fallback may answer."""
        model = self._service.model(name)
        questions = [question for question, _ in visits]
        answered = await self._service.suggest(request, model, questions, in_trial=in_trial)
        facts = answered.model, answered.fallback
        return [
            MadeList(
                str(uuid.uuid4()), suggestions, *facts, (answered.model,) * len(suggestions), trial
            )
            for suggestions in answered.results
        ]

    async def _split(
        self, request: Request, chosen: Chosen, visits: Sequence[tuple[SuggestQuestion, Visit]]
    ) -> list[MadeList]:
        """Lists of an arm or, for it, of the fallback; a failure is recorded as an empty list."""
        [name], trial = chosen.models, self._trial(chosen)
        try:
            return await self._alone(request, name, visits, trial, in_trial=True)
        except Exception as error:
            if _is_failure(error):
                self._service.metrics.arm_failures.labels(name).inc(len(visits))
                for question, visit in visits:
                    nothing = MadeList(str(uuid.uuid4()), [], name, False, (), trial)
                    self.record(request, nothing, question, visit)
            raise

    async def _interleaved(
        self, request: Request, chosen: Chosen, visits: Sequence[tuple[SuggestQuestion, Visit]]
    ) -> list[MadeList]:
        """Both models' lists in turns; if only one answers in time, its own, outside the trial."""
        answers = await asyncio.gather(
            *(self._alone(request, name, visits, in_trial=True) for name in chosen.models),
            return_exceptions=True,
        )
        for name, result in zip(chosen.models, answers, strict=True):
            if isinstance(result, BaseException) and _is_failure(result):
                self._service.metrics.arm_failures.labels(name).inc(len(visits))
        lists = [result for result in answers if not isinstance(result, BaseException)]
        refusals = [result for result in answers if isinstance(result, BaseException)]
        if not all(isinstance(refusal, BusyError) for refusal in refusals) or not lists:
            raise refusals[0]
        lists = [made_lists for made_lists in lists if not made_lists[0].fallback] or lists[:1]
        if len(lists) < 2:
            return lists[0]
        trial = self._trial(chosen)
        drafted = []
        for (question, visit), first, second in zip(visits, *lists, strict=True):
            key = "\0".join((visit.trial_key, *question.session))
            items = team_draft(first.suggestions, second.suggestions, question.options.n, key)
            suggestions = [item.suggestion for item in items]
            teams = tuple((first, second)[item.team].model for item in items)
            name = "+".join(chosen.models)
            drafted.append(MadeList(first.query_id, suggestions, name, False, teams, trial))
        return drafted

    def _trial(self, chosen: Chosen) -> Trial:
        settings = self._service.settings
        names = settings.interleave or [share.name for share in settings.split]
        arms = tuple(Arm(name, self._service.models.served[name].version) for name in names)
        if chosen.kind == "interleave":
            return Trial("interleave", arms)
        return Trial("split", arms, chosen.models[0])

    def record(
        self, request: Request, shown: MadeList, question: SuggestQuestion, visit: Visit
    ) -> None:
        """Record a list that is served, and ask the shadow model for its own."""
        if self._service.feedback is None or not question.session:
            return
        models, moment = self._service.models, datetime.now(UTC)
        model = models.fallback if shown.fallback else models.served.get(shown.model)
        served = ServedList(
            shown.query_id,
            visit.session_id or "",
            moment,
            question.session[-1],
            origin(sender_of(request), moment),
            visit.owner,
            context=question.session[:-1],
            model=shown.model,
            version="" if model is None else model.version,
            fallback=shown.fallback,
            suggestions=_listed(shown.suggestions, shown.teams),
            trial=shown.trial,
        )
        self._append(served)
        shadow = self._service.settings.shadow
        if shadow is not None and shown.model != shadow and not self._service.control.killed:
            task = asyncio.create_task(self._ask_shadow(shadow, served, question, visit))
            self._shadows.add(task)
            task.add_done_callback(self._shadows.discard)

    def _append(self, event: FeedbackEvent) -> None:
        """Write a record; a failure is logged and counted, and does not stop the list."""
        assert self._service.feedback is not None
        try:
            self._service.feedback.append(event)
        except FeedbackLostError as error:
            self._service.metrics.feedback_lost.inc()
            monitoring.log_failure("a list cannot be recorded", error, reason=str(error))

    async def _ask_shadow(
        self, name: str, served: ServedList, question: SuggestQuestion, visit: Visit
    ) -> None:
        """Ask the model in the shadow, after the visitor has an answer; a busy one is left out."""
        model = self._service.model(name)
        suggestions = await self._service.ask_in_background(model, question)
        if suggestions is None or not await self._service.is_kept(visit):
            return
        self._append(
            ShadowList(
                served.query_id,
                served.client_id,
                served.time,
                served.query,
                served.origin,
                served.owner,
                model=name,
                version=model.version,
                suggestions=_listed(suggestions, (name,) * len(suggestions)),
            )
        )


def sender_of(request: Request) -> str:
    """Key and address of a request: what a flood has in common."""
    client = request.client
    return f"{request.scope.get('key_name', '')} {client.host if client else ''}"


def _is_failure(error: BaseException) -> bool:
    """Whether the model failed; a bad request or a client that left does not count."""
    if isinstance(error, ProblemError):
        return error.status >= 500
    return isinstance(error, Exception) and not isinstance(error, ClientLeftError)


def _listed(
    suggestions: Sequence[Suggestion], teams: Sequence[str]
) -> tuple[ListedSuggestion, ...]:
    return tuple(
        ListedSuggestion(
            suggestion.text, source_of(suggestion.source), team, round(suggestion.score, 6)
        )
        for suggestion, team in zip(suggestions, teams, strict=True)
    )

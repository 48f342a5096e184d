"""The routes under `/v1`: what a front end calls."""

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from nextquery.inference.lists.relations import group
from nextquery.records import Suggestion as FoundSuggestion
from nextquery.service.http import schemas
from nextquery.service.http.access import Owner, service_of, trials_of
from nextquery.service.http.problems import BusyError, ProblemError
from nextquery.service.models.questions import (
    CompleteQuestion,
    ExplainQuestion,
    ScoreQuestion,
    SuggestOptions,
    SuggestQuestion,
)
from nextquery.service.operation import logging
from nextquery.service.operation.feedback_log import FeedbackLostError
from nextquery.service.service import Service
from nextquery.service.sessions.stores import SessionsUnavailableError, session_key
from nextquery.service.trials import Chosen, MadeList, Visit, sender_of
from nextquery.word_breaks import join_words

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ProblemDocument}
    for status in (400, 401, 408, 413, 422, 429, 431, 500, 503)
}
NOT_ABLE: dict[int | str, dict[str, Any]] = {501: {"model": schemas.ProblemDocument}}
NOT_LEARNT: dict[int | str, dict[str, Any]] = {409: {"model": schemas.ProblemDocument}}
NOT_OPEN: dict[int | str, dict[str, Any]] = {403: {"model": schemas.ProblemDocument}}
NOT_SERVED: dict[int | str, dict[str, Any]] = {404: {"model": schemas.ProblemDocument}}

TRENDS = "trends"
"""The name of the model whose list is `/v1/trends`."""

router = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["suggestions"])


@router.post("/suggest", responses=NOT_LEARNT)
async def suggest(
    asked: schemas.SuggestRequest, request: Request, owner: Owner
) -> schemas.SuggestAnswer:
    """The queries that may come next."""
    service, trials = service_of(request), trials_of(request)
    question = await _question(service, owner, asked)
    visit = Visit(asked.session_id, owner)
    chosen = trials.choose(asked.model, visit)
    _check_usefulness(service, chosen, asked)
    service.charge(request, [question] * len(chosen.models))
    [made] = await trials.lists(request, chosen, [(question, visit)])
    return _list_answer(request, made, question.context)


@router.post("/suggest/batch", responses=NOT_LEARNT)
async def suggest_batch(
    asked: schemas.SuggestBatchRequest, request: Request, owner: Owner
) -> schemas.SuggestBatchAnswer:
    """Several lists at once; requests of the same model and settings are computed together."""
    service, trials = service_of(request), trials_of(request)
    groups: dict[tuple[Chosen, SuggestOptions], dict[int, tuple[SuggestQuestion, Visit]]] = {}
    charged: list[SuggestQuestion] = []
    for index, item in enumerate(asked.requests):
        question = await _question(service, owner, item)
        visit = Visit(item.session_id, owner)
        chosen = trials.choose(item.model, visit)
        _check_usefulness(service, chosen, item)
        groups.setdefault((chosen, item.options), {})[index] = question, visit
        charged += [question] * len(chosen.models)
    service.charge(request, charged)
    answers: dict[int, schemas.SuggestAnswer] = {}
    for (chosen, _), together in groups.items():
        lists = await trials.lists(request, chosen, list(together.values()))
        for (index, (question, _)), made in zip(together.items(), lists, strict=True):
            answers[index] = _list_answer(request, made, question.context)
    return schemas.SuggestBatchAnswer(answers=[answers[index] for index in sorted(answers)])


@router.post("/score", responses=NOT_OPEN)
async def score(asked: schemas.ScoreRequest, request: Request, owner: Owner) -> schemas.ScoreAnswer:
    """How likely given queries are to come next."""
    service = service_of(request)
    if not service.settings.score:
        raise ProblemError(403, "This service gives no scores.")
    question = ScoreQuestion(await service.context(owner, asked), tuple(asked.candidates))
    service.charge(request, [question])
    answered = await service.ask(request, service.model(asked.model), [question])
    scores = [
        schemas.Score(
            text=item.text,
            log_likelihood=item.log_likelihood if math.isfinite(item.log_likelihood) else None,
            words=item.words,
            unknown=list(item.unknown),
        )
        for item in answered.results[0]
    ]
    return schemas.ScoreAnswer(scores=scores, model=answered.model, took_ms=_took(request))


@router.post("/complete")
async def complete(
    asked: schemas.CompleteRequest, request: Request, owner: Owner
) -> schemas.CompleteAnswer:
    """How a half-typed query may end."""
    service = service_of(request)
    question = CompleteQuestion(await service.context(owner, asked), asked.prefix, asked.n)
    service.charge(request, [question])
    model = service.model(asked.model)
    found: list[FoundSuggestion] = []
    if not service.control.killed:
        found = (await service.ask(request, model, [question])).results[0]
    return schemas.CompleteAnswer(
        completions=_suggestions(found), model=model.name, took_ms=_took(request)
    )


@router.post("/explain", responses=NOT_ABLE)
async def explain(
    asked: schemas.ExplainRequest, request: Request, owner: Owner
) -> schemas.ExplainAnswer:
    """How much each query of a session counts."""
    service = service_of(request)
    question = ExplainQuestion(await service.context(owner, asked))
    service.charge(request, [question])
    model = service.model(asked.model)
    if model.engine is None or not model.engine.explains:
        raise ProblemError(501, "Only a neural model has gates that say how much a query counts.")
    answered = await service.ask(request, model, [question])
    weights = [
        schemas.QueryWeight(text=item.query, update=item.update, share=item.share)
        for item in answered.results[0]
    ]
    return schemas.ExplainAnswer(queries=weights, model=model.name, took_ms=_took(request))


@router.post("/feedback", status_code=204, responses=NOT_ABLE)
async def feedback(asked: schemas.FeedbackRequest, request: Request, owner: Owner) -> Response:
    """What a user did with a list: shown, clicked or dismissed."""
    service = service_of(request)
    if service.feedback is None:
        raise ProblemError(501, "Feedback is not recorded here: the service has no folder for it.")
    try:
        service.feedback.write(asked, sender=sender_of(request))
    except FeedbackLostError as error:
        logging.log_failure("feedback cannot be written", error, reason=str(error))
        raise BusyError("Feedback cannot be written now.", 10) from None
    service.metrics.feedback.labels(asked.action).inc()
    return Response(status_code=204)


@router.delete("/sessions/{session_id}", status_code=204)
async def delete_session(
    session_id: Annotated[str, Path(pattern=r"^[A-Za-z0-9_.~-]{1,128}$")],
    request: Request,
    owner: Owner,
) -> Response:
    """Forget a session and its feedback; it does not matter whether they were known."""
    service = service_of(request)
    try:
        await service.sessions.delete(session_key(owner, session_id))
        if service.feedback is not None:
            await asyncio.to_thread(service.feedback.forget, session_id)
    except SessionsUnavailableError:
        raise BusyError("The session store does not answer.", 2) from None
    except FeedbackLostError as error:
        logging.log_failure("feedback cannot be removed", error, reason=str(error))
        raise BusyError("Feedback cannot be removed now.", 10) from None
    return Response(status_code=204)


@router.get("/trends", responses=NOT_SERVED)
async def trends(
    request: Request, owner: Owner, n: Annotated[int, Query(ge=1, le=schemas.MAX_SUGGESTIONS)] = 10
) -> schemas.TrendsAnswer:
    """What rises: the list of the model that is served as `trends`, whatever the session."""
    service = service_of(request)
    if TRENDS not in service.models.served:
        raise ProblemError(404, f"No model is served under the name {TRENDS!r} here.")
    model = service.model(TRENDS)
    question = SuggestQuestion((), SuggestOptions(n=n))
    service.charge(request, [question])
    found: list[FoundSuggestion] = []
    if not service.control.killed:
        found = (await service.ask(request, model, [question])).results[0]
    return schemas.TrendsAnswer(
        trends=_suggestions(found), model=model.name, took_ms=_took(request)
    )


@router.get("/models")
async def models(request: Request, owner: Owner) -> schemas.ModelsAnswer:
    """The served models and what they can do."""
    service = service_of(request)
    return schemas.ModelsAnswer(
        models=[
            schemas.ModelFacts(
                name=model.name,
                kind=model.engine.kind,
                explains=model.engine.explains,
                judges_usefulness=model.engine.judges_usefulness,
                version=model.engine.version,
                specificity=model.engine.specificity,
                min_users=model.engine.min_users,
            )
            for model in service.models.served.values()
            if model.engine is not None
        ],
        feedback=service.feedback is not None,
    )


async def _question(service: Service, owner: str, asked: schemas.SuggestRequest) -> SuggestQuestion:
    context = await service.context(owner, asked, asked.query)
    return SuggestQuestion(context, asked.options, found_nothing=asked.results == 0)


def _check_usefulness(service: Service, chosen: Chosen, asked: schemas.SuggestRequest) -> None:
    """Refuse to rank by usefulness with a model that has not learnt it."""
    engines = [service.model(name).engine for name in chosen.models] if asked.usefulness else []
    if not all(engine is None or engine.judges_usefulness for engine in engines):
        raise ProblemError(409, "The model has no usefulness head: it was trained without clicks.")


def _list_answer(request: Request, made: MadeList, context: Sequence[str]) -> schemas.SuggestAnswer:
    return schemas.SuggestAnswer(
        suggestions=_suggestions(made.suggestions, context),
        model=made.model,
        fallback=made.fallback,
        query_id=made.query_id,
        took_ms=_took(request),
    )


def _suggestions(
    found: list[FoundSuggestion], context: Sequence[str] | None = None
) -> list[schemas.Suggestion]:
    """The suggestions as they are sent; in a session with the heading of each."""
    return [
        schemas.Suggestion(
            text=join_words(item.text),
            score=item.score,
            source=item.source,
            log_likelihood=item.log_likelihood,
            log_prior=item.log_prior,
            usefulness=item.usefulness,
            group=None if context is None else group(context, item.text),
        )
        for item in found
    ]


def _took(request: Request) -> float:
    return round((time.perf_counter() - float(request.scope["arrived"])) * 1000, 2)

"""The routes under `/v1`: what a front end calls."""

import math
import time
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from nextquery.errors import InputError
from nextquery.records import Suggestion as FoundSuggestion
from nextquery.service.answering import Answered, Service, ask, chosen_model, session_context
from nextquery.service.answering import suggest as suggest_lists
from nextquery.service.http import schemas
from nextquery.service.http.access import Owner, admit, service_of
from nextquery.service.http.problems import BusyError, ProblemError
from nextquery.service.models.served_model import Operation, SuggestKey
from nextquery.service.sessions.stores import SessionsUnavailableError, session_key

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ProblemDocument}
    for status in (400, 401, 408, 413, 422, 429, 500, 503)
}
NOT_ABLE: dict[int | str, dict[str, Any]] = {501: {"model": schemas.ProblemDocument}}

router = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["suggestions"])
Here = Annotated[Service, Depends(service_of)]


@router.post("/suggest")
async def suggest(
    asked: schemas.SuggestRequest, request: Request, owner: Owner, service: Here
) -> schemas.SuggestAnswer:
    """The queries that may come next."""
    admit(request, service)
    context = await session_context(service, owner, asked, asked.query)
    answered = await _lists(request, service, asked, [context])
    return _list_answer(request, service, answered, answered.results[0])


@router.post("/suggest/batch")
async def suggest_batch(
    asked: schemas.SuggestBatchRequest, request: Request, owner: Owner, service: Here
) -> schemas.SuggestBatchAnswer:
    """Several lists at once; requests of the same model and settings are computed together."""
    admit(request, service, len(asked.requests))
    contexts = [await session_context(service, owner, item, item.query) for item in asked.requests]
    groups: dict[tuple[str | None, int, float], list[int]] = {}
    for index, item in enumerate(asked.requests):
        groups.setdefault((item.model, item.n, item.diversity), []).append(index)
    answers: dict[int, schemas.SuggestAnswer] = {}
    for members in groups.values():
        first = asked.requests[members[0]]
        answered = await _lists(request, service, first, [contexts[index] for index in members])
        for index, found in zip(members, answered.results, strict=True):
            answers[index] = _list_answer(request, service, answered, found)
    return schemas.SuggestBatchAnswer(answers=[answers[index] for index in sorted(answers)])


@router.post("/score")
async def score(
    asked: schemas.ScoreRequest, request: Request, owner: Owner, service: Here
) -> schemas.ScoreAnswer:
    """How likely given queries are to come next."""
    admit(request, service)
    context = await session_context(service, owner, asked)
    model = chosen_model(service, asked.model)
    question = (context, tuple(asked.candidates))
    answered = await ask(service, request, model, Operation("score"), [question])
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
    asked: schemas.CompleteRequest, request: Request, owner: Owner, service: Here
) -> schemas.CompleteAnswer:
    """How a half-typed query may end."""
    admit(request, service)
    context = await session_context(service, owner, asked)
    model = chosen_model(service, asked.model)
    found: list[FoundSuggestion] = []
    if not service.control.killed:
        question = (context, asked.prefix, asked.n)
        found = (await ask(service, request, model, Operation("complete"), [question])).results[0]
    return schemas.CompleteAnswer(
        completions=_suggestions(found), model=model.name, took_ms=_took(request)
    )


@router.post("/explain", responses=NOT_ABLE)
async def explain(
    asked: schemas.ExplainRequest, request: Request, owner: Owner, service: Here
) -> schemas.ExplainAnswer:
    """How much each query of a session counts."""
    admit(request, service)
    context = await session_context(service, owner, asked)
    model = chosen_model(service, asked.model)
    if model.engine is None or not model.engine.explains:
        raise ProblemError(501, "Only a neural model has gates that say how much a query counts.")
    answered = await ask(service, request, model, Operation("explain"), [(context,)])
    weights = [
        schemas.QueryWeight(text=item.query, update=item.update, share=item.share)
        for item in answered.results[0]
    ]
    return schemas.ExplainAnswer(queries=weights, model=model.name, took_ms=_took(request))


@router.post("/feedback", status_code=204, responses=NOT_ABLE)
async def feedback(
    asked: schemas.FeedbackRequest, request: Request, owner: Owner, service: Here
) -> Response:
    """What a user did with a list: shown, clicked or dismissed."""
    admit(request, service)
    if service.feedback is None:
        raise ProblemError(501, "Feedback is not recorded here: the service has no folder for it.")
    service.feedback.write(asked)
    service.metrics.feedback.labels(asked.action).inc()
    return Response(status_code=204)


@router.delete("/sessions/{session_id}", status_code=204)
async def delete_session(
    session_id: Annotated[str, Path(pattern=r"^[A-Za-z0-9_.~-]{1,128}$")],
    request: Request,
    owner: Owner,
    service: Here,
) -> Response:
    """Forget a session; it does not matter whether it was known."""
    admit(request, service)
    try:
        await service.sessions.delete(session_key(owner, session_id))
    except SessionsUnavailableError:
        raise BusyError("The session store does not answer.", 2) from None
    return Response(status_code=204)


@router.get("/models")
async def models(request: Request, owner: Owner, service: Here) -> schemas.ModelsAnswer:
    """The served models and what they can do."""
    admit(request, service)
    return schemas.ModelsAnswer(
        models=[
            schemas.ModelFacts(
                name=model.name,
                kind=model.engine.kind,
                explains=model.engine.explains,
                version=model.engine.version,
            )
            for model in service.models.served.values()
            if model.engine is not None
        ],
        feedback=service.feedback is not None,
    )


async def _lists(
    request: Request,
    service: Service,
    asked: schemas.SuggestRequest,
    contexts: list[tuple[str, ...]],
) -> Answered:
    model = chosen_model(service, asked.model)
    if service.control.killed:
        return Answered([[] for _ in contexts], model.name)
    try:
        return await suggest_lists(
            service, request, model, SuggestKey(asked.n, asked.diversity), contexts
        )
    except InputError as error:
        raise ProblemError(422, str(error)) from None


def _list_answer(
    request: Request, service: Service, answered: Answered, found: list[FoundSuggestion]
) -> schemas.SuggestAnswer:
    return schemas.SuggestAnswer(
        suggestions=_suggestions(found),
        model=answered.model,
        fallback=answered.fallback,
        query_id=str(uuid.uuid4()),
        took_ms=_took(request),
    )


def _suggestions(found: list[FoundSuggestion]) -> list[schemas.Suggestion]:
    return [
        schemas.Suggestion(text=item.text, score=item.score, source=item.source) for item in found
    ]


def _took(request: Request) -> float:
    return round((time.perf_counter() - float(request.scope["arrived"])) * 1000, 2)

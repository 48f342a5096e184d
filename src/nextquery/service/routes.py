"""Routes under `/v1` and `/admin`, health, metrics and pages."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.security import APIKeyHeader
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST

from nextquery.errors import BlocklistError, InputError, NextqueryError
from nextquery.inference.lists import group
from nextquery.normalise import join_words
from nextquery.records import Correction
from nextquery.records import Suggestion as FoundSuggestion
from nextquery.service import monitoring, schemas
from nextquery.service.answering import ClientLeftError, Service, Visit
from nextquery.service.control import EntryMissingError, block_text, unblock_text
from nextquery.service.engine import (
    CompleteQuestion,
    ExplainQuestion,
    ScoreQuestion,
    SuggestQuestion,
    WhyQuestion,
)
from nextquery.service.feedback import FeedbackLostError, Visitor
from nextquery.service.histories import History
from nextquery.service.keys import KeyRing
from nextquery.service.schemas import (
    BusyError,
    ProblemError,
    invalid_key,
    read_many,
    read_prefix,
    read_query,
    read_session,
    read_texts,
)
from nextquery.service.sessions import SessionsUnavailableError, StoredSession, session_key
from nextquery.service.trials import Chosen, MadeList, Trials, sender_of
from nextquery.suggesters.base import SuggestOptions
from nextquery.suggesters.diagnosis import Diagnosis

API_HEADER, ADMIN_HEADER = "X-API-Key", "X-Admin-Key"


def _owner(keys: KeyRing, key: str | None, header: str) -> str:
    """The name of a key's owner; 401 if the key is unknown."""
    name = keys.name(key) if key else None
    if name is None:
        raise invalid_key(header)
    return name


API_KEY = APIKeyHeader(name=API_HEADER, auto_error=False, scheme_name="ApiKey")
ADMIN_KEY = APIKeyHeader(name=ADMIN_HEADER, auto_error=False, scheme_name="AdminKey")


def service_of(request: Request) -> Service:
    """The running service."""
    return cast("Service", request.app.state.service)


def trials_of(request: Request) -> Trials:
    """What makes and records the lists of the running service."""
    return cast("Trials", request.app.state.trials)


async def _service(request: Request) -> Service:
    return service_of(request)


async def owner_of(request: Request, key: Annotated[str | None, Depends(API_KEY)]) -> str:
    """The name of the caller's key; empty where no keys are asked for."""
    service = service_of(request)
    return _owner(service.keys, key, API_HEADER) if len(service.keys) else ""


async def admin_of(request: Request, key: Annotated[str | None, Depends(ADMIN_KEY)]) -> str:
    """The name of the caller's admin key."""
    return _owner(service_of(request).admin_keys, key, ADMIN_HEADER)


RunningService = Annotated[Service, Depends(_service)]
Owner = Annotated[str, Depends(owner_of)]
Admin = Annotated[str, Depends(admin_of)]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of answers that are problems."""
    return {status: {"model": schemas.ProblemDocument} for status in statuses}


PROBLEMS = problems(400, 401, 408, 413, 422, 429, 431, 500, 503)
TRENDS = "trends"
"""The name of the model whose list is `/v1/trends`."""

router = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["suggestions"])


@router.post("/suggest", responses=problems(409), response_model_exclude_unset=True)
async def suggest(
    body: schemas.SuggestRequest, request: Request, owner: Owner
) -> schemas.SuggestAnswer:
    """The queries that may come next."""
    service, trials = service_of(request), trials_of(request)
    read_texts(body)
    visit = await service.visit(owner, body)
    question = _question(service, visit, body)
    history = await service.visitors.history(owner, body)
    chosen = trials.choose(body.model, visit)
    _check_usefulness(service, chosen, body)
    service.charge(request, [question] * len(chosen.models), body.session_id)
    try:
        [shown] = await trials.lists(request, chosen, [(question, visit)])
    except ClientLeftError:  # not refused: the visitor opened the results of the query
        await service.remember(visit, body.query)
        await service.visitors.remember(owner, body, body.query, history)
        raise
    if await service.remember(visit, body.query):
        trials.record(request, shown, question, visit)
    await service.visitors.remember(owner, body, body.query, history)
    return _list_answer(shown, question, service.again(question, history, shown.suggestions))


@router.post("/suggest/batch", responses=problems(409), response_model_exclude_unset=True)
async def suggest_batch(
    body: schemas.SuggestBatchRequest, request: Request, owner: Owner
) -> schemas.SuggestBatchAnswer:
    """Several lists at once; requests of the same model and settings are computed together."""
    service, trials = service_of(request), trials_of(request)
    groups: dict[tuple[Chosen, SuggestOptions], dict[int, tuple[SuggestQuestion, Visit]]] = {}
    charged: list[SuggestQuestion] = []
    sessions: dict[str | None, StoredSession] = {}
    histories: list[History | None] = []
    for index, item in enumerate(body.requests):
        read_texts(item)
        await asyncio.sleep(0)  # other requests are served between long texts
        visit = await service.visit(owner, item, sessions.get(item.session_id))
        question = _question(service, visit, item)
        if item.session_id is not None and service.settings.sessions != "none":
            # A later request of the batch continues the session.
            sessions[item.session_id] = replace(visit.stored, queries=question.session)
        histories.append(await service.visitors.history(owner, item))
        chosen = trials.choose(item.model, visit)
        _check_usefulness(service, chosen, item)
        groups.setdefault((chosen, question.options), {})[index] = question, visit
        charged += [question] * len(chosen.models)
    session_ids = {item.session_id for item in body.requests}
    session = session_ids.pop() if len(session_ids) == 1 else None
    service.charge(request, charged, session, batch=len(body.requests) > 1)
    answered: dict[int, tuple[MadeList, SuggestQuestion, Visit]] = {}
    for (chosen, _), together in groups.items():
        lists = await trials.lists(request, chosen, list(together.values()))
        for (index, (question, visit)), result in zip(together.items(), lists, strict=True):
            answered[index] = result, question, visit
    for index, item in enumerate(body.requests):  # only when all of them are answered
        if await service.remember(answered[index][2], item.query):
            trials.record(request, *answered[index])
        await service.visitors.remember(owner, item, item.query, histories[index])
    answers = []
    for index, history in enumerate(histories):
        result, question, _ = answered[index]
        again = service.again(question, history, result.suggestions)
        answers.append(_list_answer(result, question, again))
        await asyncio.sleep(0)
    return schemas.SuggestBatchAnswer(answers=answers)


@router.post("/score", responses=problems(403))
async def score(body: schemas.ScoreRequest, request: Request, owner: Owner) -> schemas.ScoreAnswer:
    """How likely given queries are to come next."""
    service = service_of(request)
    if not service.settings.score:
        raise ProblemError(403, "This service gives no scores: `score` is off.")
    read_texts(body)
    candidates = tuple(await read_many(body.candidates))
    visit = await service.visit(owner, body)
    question = ScoreQuestion(visit.session(), candidates)
    service.charge(request, [question], body.session_id)
    model = service.model(body.model)
    [scored] = await service.ask(request, model, [question])
    scores = [
        schemas.Score(
            text=text,
            log_likelihood=item.log_likelihood if math.isfinite(item.log_likelihood) else None,
            words=item.words,
            unknown=list(item.unknown),
        )
        for text, item in zip(body.candidates, scored, strict=True)
    ]
    return schemas.ScoreAnswer(scores=scores, model=model.name)


@router.post("/complete", responses=problems(409), response_model_exclude_unset=True)
async def complete(
    body: schemas.CompleteRequest, request: Request, owner: Owner
) -> schemas.CompleteAnswer:
    """How a half-typed query may end."""
    service = service_of(request)
    read_texts(body)
    visit, prefix = await service.visit(owner, body), read_prefix(body.prefix)
    context = visit.session()
    question = CompleteQuestion(context, prefix or "", body.n or service.settings.n)
    service.charge(request, [question], body.session_id)
    model = service.model(body.model)
    suggestions: list[FoundSuggestion] = []
    correction: Correction | None = None
    if not service.control.killed and prefix is not None:
        [suggestions] = await service.ask(request, model, [question])
        rewriter = service.rewriter(body.model) if body.correct else None
        if rewriter is not None:
            completions = rewriter.complete(context, prefix, suggestions, question.n)
            suggestions, correction = list(completions.items), completions.correction
    answer = schemas.CompleteAnswer(
        completions=_suggestions(suggestions), corrected=_corrected(correction), model=model.name
    )
    if (history := await service.visitors.history(owner, body)) is not None:
        earlier = [] if service.control.killed else service.visitors.completions(prefix, history)
        answer.again = [schemas.Again(text=join_words(item.text)) for item in earlier]
    return answer


@router.post("/explain", responses=problems(501))
async def explain(
    body: schemas.ExplainRequest, request: Request, owner: Owner
) -> schemas.ExplainAnswer:
    """How much each query of a session counts."""
    service = service_of(request)
    read_texts(body)
    visit = await service.visit(owner, body)
    question = ExplainQuestion(visit.session())
    service.charge(request, [question], body.session_id)
    model = service.model(body.model)
    if model.engine is None or not model.engine.facts.explains:
        raise ProblemError(501, "Only a neural model has gates that say how much a query counts.")
    [explained] = await service.ask(request, model, [question])
    weights = [
        schemas.QueryWeight(text=join_words(item.query), update=item.update, share=item.share)
        for item in explained
    ]
    return schemas.ExplainAnswer(queries=weights, model=model.name)


@router.post("/feedback", status_code=204, responses=problems(501))
async def feedback(body: schemas.FeedbackRequest, request: Request, owner: Owner) -> Response:
    """What a user did with a list: shown, clicked or dismissed."""
    service = service_of(request)
    if service.feedback is None:
        raise ProblemError(501, "Feedback is not recorded here: the service has no folder for it.")
    try:
        service.feedback.write(body, sender=sender_of(request), owner=owner)
    except FeedbackLostError as error:
        monitoring.log_failure("feedback cannot be written", error, reason=str(error))
        raise BusyError("Feedback cannot be written now.", 10) from None
    service.metrics.feedback.labels(body.action).inc()
    return Response(status_code=204)


@router.delete("/sessions/{session_id}", status_code=204)
async def delete_session(
    session_id: schemas.Identifier, service: RunningService, owner: Owner
) -> Response:
    """Forget a session of this key and its feedback; unknown ones, too, give 204."""
    try:
        await service.sessions.delete(session_key(owner, session_id))
        if service.feedback is not None:
            await service.feedback.forget(Visitor(session_id, owner))
    except SessionsUnavailableError:
        raise BusyError("The session store does not answer.", 2) from None
    except FeedbackLostError as error:
        monitoring.log_failure("feedback cannot be removed", error, reason=str(error))
        raise BusyError("Feedback cannot be removed now.", 10) from None
    return Response(status_code=204)


@router.get("/users/{user_id}/searches", responses=problems(409))
async def export_user(
    user_id: schemas.Identifier, service: RunningService, owner: Owner
) -> schemas.UserHistory:
    """Everything stored about a user of this key; empty for an unknown user."""
    history = await service.visitors.export(owner, user_id)
    searches = [
        schemas.PastSearch(query=join_words(search.text), time=search.time, count=search.count)
        for search in history.queries
    ]
    return schemas.UserHistory(searches=searches)


@router.delete("/users/{user_id}", status_code=204, responses=problems(409))
async def delete_user(
    user_id: schemas.Identifier, service: RunningService, owner: Owner
) -> Response:
    """Forget what a user of this key searched for; unknown ones, too, give 204."""
    await service.visitors.forget(owner, user_id)
    return Response(status_code=204)


@router.get("/trends", responses=problems(404))
async def trends(
    request: Request, owner: Owner, n: Annotated[int, Query(ge=1, le=schemas.MAX_SUGGESTIONS)] = 10
) -> schemas.TrendsAnswer:
    """Trending queries: the list of the model that is served as `trends`, whatever the session."""
    service = service_of(request)
    if TRENDS not in service.models.served:
        raise ProblemError(404, f"No model is served under the name {TRENDS!r} here.")
    model = service.model(TRENDS)
    question = SuggestQuestion((), SuggestOptions(n=n))
    service.charge(request, [question])
    suggestions: list[FoundSuggestion] = []
    if not service.control.killed:
        [suggestions] = await service.ask(request, model, [question])
    return schemas.TrendsAnswer(trends=_suggestions(suggestions), model=model.name)


@router.get("/models")
async def models(service: RunningService, owner: Owner) -> schemas.ModelsAnswer:
    """The served models and what they can do."""
    chosen = service.settings.specificity
    change = {} if chosen is None else {"specificity": chosen}
    return schemas.ModelsAnswer(
        models=[
            schemas.ModelFacts(name=model.name, **asdict(model.engine.facts) | change)
            for model in service.models.served.values()
            if model.engine is not None
        ],
        feedback=service.feedback is not None,
    )


def _question(service: Service, visit: Visit, body: schemas.SuggestRequest) -> SuggestQuestion:
    """The question of a request: about the corrected session, unless that is not wanted."""
    typed = visit.session(body.query)
    options, found_nothing = body.options(service.settings), body.results == 0
    rewriter = service.rewriter(body.model) if body.correct else None
    if rewriter is None:
        return SuggestQuestion(typed, options, found_nothing)
    read = rewriter.context(typed)
    correction = read.correction if body.query.strip() else None
    return SuggestQuestion(read.queries, options, found_nothing, typed, correction)


def _check_usefulness(service: Service, chosen: Chosen, body: schemas.SuggestRequest) -> None:
    """Refuse to rank by usefulness with a model that has not learnt it."""
    engines = [service.model(name).engine for name in chosen.models] if body.usefulness else []
    if not all(engine is None or engine.facts.judges_usefulness for engine in engines):
        raise ProblemError(409, "The model has no usefulness head: it was trained without clicks.")


def _list_answer(
    shown: MadeList, question: SuggestQuestion, again: Sequence[FoundSuggestion] | None
) -> schemas.SuggestAnswer:
    """An answer; without a known history it has no `again`."""
    answer = schemas.SuggestAnswer(
        suggestions=_suggestions(shown.suggestions, question.context),
        corrected=_corrected(question.correction),
        model=shown.model,
        fallback=shown.fallback,
        query_id=shown.query_id,
    )
    if again is not None:
        answer.again = [
            schemas.Again(text=join_words(item.text), probability=item.score) for item in again
        ]
    return answer


def _corrected(correction: Correction | None) -> schemas.Corrected | None:
    if correction is None:
        return None
    changes = [schemas.Change(typed=old, corrected=new) for old, new in correction.changes]
    return schemas.Corrected(text=join_words(correction.text), changes=changes)


def _suggestions(
    items: list[FoundSuggestion], context: Sequence[str] | None = None
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
        for item in items
    ]


admin_router = APIRouter(prefix="/admin", responses=PROBLEMS, tags=["administration"])


@admin_router.post("/reload", responses=problems(409))
async def reload(admin: Admin, service: RunningService) -> dict[str, str]:
    """Load the model folders again next to the old ones, warm up and swap; then tell the workers.

    A folder that is refused leaves everything as it was.
    """
    try:
        versions = await service.models.reload()
    except NextqueryError as error:
        raise ProblemError(409, str(error)) from None
    if not service.control.announce_reload() and service.settings.workers > 1:
        detail = "This worker has loaded the models, but the others could not be told."
        raise BusyError(f"{detail} Free space in the control folder or restart the service.", 10)
    monitoring.log_event("models reloaded", key=admin)
    return versions


@admin_router.put("/kill-switch", responses=problems(409))
async def kill_switch(
    wanted: schemas.KillSwitch, admin: Admin, service: RunningService
) -> schemas.KillSwitch:
    """While it is on, every list of suggestions and completions is empty."""
    try:
        service.control.switch(wanted.on)
    except OSError as error:
        monitoring.log_failure("the kill switch cannot be written", error, key=admin)
        if not wanted.on:
            raise ProblemError(409, f"The switch cannot be written ({error.strerror}).") from None
        detail = (
            f"Lists are empty in this process, but the switch cannot be written ({error.strerror})"
        )
        raise BusyError(f"{detail}: other workers do not know, nor does a restart.", 1) from None
    monitoring.log_event("kill switch set", on=wanted.on, key=admin)
    return wanted


@admin_router.post("/block", responses=problems(409))
async def block(
    wanted: schemas.BlockRequest, admin: Admin, service: RunningService
) -> schemas.Blocked:
    """Add a word, a phrase or a whole query to the blocklist, which models read at once."""
    entry = await _change_blocklist(service, block_text, wanted.text)
    monitoring.log_event("a text was blocked", key=admin)
    return schemas.Blocked(text=entry)


@admin_router.post("/unblock", responses=problems(404, 409))
async def unblock(
    wanted: schemas.BlockRequest, admin: Admin, service: RunningService
) -> schemas.Blocked:
    """Remove an entry from the blocklist; other entries may still block the same text."""
    entry = await _change_blocklist(service, unblock_text, wanted.text)
    monitoring.log_event("a text was unblocked", key=admin)
    return schemas.Blocked(text=entry)


async def _change_blocklist(service: Service, change: Callable[[Path, str], str], text: str) -> str:
    blocklist = service.settings.blocklist
    if blocklist is None:
        raise ProblemError(409, "There is no blocklist here: the service has no file for it.")
    try:
        return await asyncio.to_thread(change, blocklist, text)
    except BlocklistError as error:
        raise ProblemError(409, f"The blocklist cannot be used: {error}") from None
    except EntryMissingError as error:
        raise ProblemError(404, str(error)) from None
    except InputError as error:
        raise ProblemError(422, str(error)) from None
    except OSError as error:
        raise ProblemError(409, f"The blocklist cannot be written ({error.strerror}).") from None


@admin_router.get("/why", responses=problems(503))
async def why(
    request: Request,
    admin: Admin,
    service: RunningService,
    query: schemas.Query,
    context: Annotated[schemas.Context, Query()] = [],  # noqa: B006
) -> dict[str, Diagnosis]:
    """Whether a query can be suggested after a session, and why not, by every served model."""
    question = WhyQuestion(tuple(read_session(context)), read_query(query))
    return {
        name: (await service.ask(request, service.model(name), [question]))[0]
        for name in service.models.served
    }


STATIC = Path(__file__).parent / "static"
_PACKAGED_WIDGET = Path(__file__).parent / "widget"
_CHECKOUT_WIDGET = Path(__file__).parents[3] / "clients" / "js" / "src"
WIDGET = _PACKAGED_WIDGET if _PACKAGED_WIDGET.is_dir() else _CHECKOUT_WIDGET
"""The search-box widget: inside the installed package, or next to it in a checkout."""
page_router = APIRouter()
_NOT_READY: dict[int | str, dict[str, Any]] = {503: {"model": schemas.Health}}


@page_router.get("/healthz", tags=["operation"])
async def healthz() -> schemas.Health:
    """Whether the process lives."""
    return schemas.Health(status="alive")


@page_router.get("/readyz", tags=["operation"], responses=_NOT_READY, response_model=schemas.Health)
async def readyz(service: RunningService) -> Response:
    """Whether requests should be sent here: models are loaded, visitors get lists, not stopping."""
    if service.draining:
        return JSONResponse({"status": "stopping"}, 503)
    if not service.models.ready:
        return JSONResponse({"status": "loading"}, 503)
    if missed := service.models.missed:
        return JSONResponse({"status": f"no answer from: {', '.join(missed)}"}, 503)
    if silent := service.models.silent:
        return JSONResponse({"status": f"ready, but no answer from: {', '.join(silent)}"})
    return JSONResponse({"status": "ready"})


@page_router.get("/metrics", tags=["operation"], response_class=Response,
            responses={200: {"content": {"text/plain": {}}}})  # fmt: skip
async def metrics(service: RunningService) -> Response:
    """Counts and times for Prometheus."""
    service.models.refresh()
    service.metrics.sessions.set(service.sessions.count())
    return Response(service.metrics.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@page_router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    """The demonstration page."""
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


@page_router.get("/docs", include_in_schema=False)
async def docs() -> FileResponse:
    """The API's documentation."""
    return FileResponse(STATIC / "docs.html", headers={"Cache-Control": "no-cache"})


def mount_files(app: FastAPI) -> None:
    """Serve the page's own files, the widget's and those of Swagger UI."""
    with as_file(files("fastapi_swagger") / "resources") as folder:
        app.mount("/static/swagger", StaticFiles(directory=folder))
    app.mount("/static", StaticFiles(directory=STATIC))
    app.mount("/widget", StaticFiles(directory=WIDGET))

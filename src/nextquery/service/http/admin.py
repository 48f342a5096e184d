"""The routes under `/admin`, which exist only where an admin key is set."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from nextquery.errors import InputError, NextqueryError
from nextquery.service.http import schemas
from nextquery.service.http.access import Admin, Here
from nextquery.service.http.problems import ProblemError
from nextquery.service.models.questions import WhyQuestion
from nextquery.service.operation import logging
from nextquery.service.operation.blocking import block_text
from nextquery.suggesters.diagnosis import Diagnosis

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ProblemDocument}
    for status in (400, 401, 408, 413, 422, 429, 431, 500, 503)
}

NOT_HERE: dict[int | str, dict[str, Any]] = {409: {"model": schemas.ProblemDocument}}

router = APIRouter(prefix="/admin", responses=PROBLEMS, tags=["administration"])


@router.post("/reload", responses={409: {"model": schemas.ProblemDocument}})
async def reload(admin: Admin, service: Here) -> dict[str, str]:
    """Load the model folders again beside the old ones, warm up and swap; then tell the workers.

    A folder that is refused leaves everything as it was.
    """
    try:
        versions = await service.models.reload()
    except NextqueryError as error:
        raise ProblemError(409, str(error)) from None
    service.control.announce_reload()
    logging.log_event("models reloaded", key=admin)
    return versions


@router.put("/kill-switch")
async def kill_switch(
    wanted: schemas.KillSwitch, admin: Admin, service: Here
) -> schemas.KillSwitch:
    """While it is on, every list of suggestions and completions is empty."""
    service.control.switch(wanted.on)
    logging.log_event("kill switch set", on=wanted.on, key=admin)
    return wanted


@router.post("/block", responses=NOT_HERE)
async def block(wanted: schemas.BlockRequest, admin: Admin, service: Here) -> schemas.Blocked:
    """Add a word or phrase to the blocklist; within a second nobody is shown it any more."""
    blocklist = service.settings.blocklist
    if blocklist is None:
        raise ProblemError(409, "There is no blocklist here: the service has no file for it.")
    try:
        entry = await asyncio.to_thread(block_text, blocklist, wanted.text)
    except InputError as error:
        raise ProblemError(422, str(error)) from None
    except OSError as error:
        raise ProblemError(409, f"The blocklist cannot be written ({error.strerror}).") from None
    logging.log_event("a text was blocked", key=admin)
    return schemas.Blocked(text=entry)


@router.get("/why", responses={503: {"model": schemas.ProblemDocument}})
async def why(
    request: Request,
    admin: Admin,
    service: Here,
    query: schemas.Query,
    context: Annotated[schemas.Context, Query()] = [],  # noqa: B006
) -> dict[str, Diagnosis]:
    """Whether a query can be suggested after a session, and why not, by every served model."""
    question = WhyQuestion(tuple(context), query)
    return {
        name: (await service.ask(request, service.model(name), [question])).results[0]
        for name in service.models.served
    }

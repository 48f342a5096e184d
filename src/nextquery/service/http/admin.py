"""The routes under `/admin`, which exist only where an admin key is set."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from nextquery.errors import NextqueryError
from nextquery.service.http import schemas
from nextquery.service.http.access import Admin, service_of
from nextquery.service.http.problems import ProblemError
from nextquery.service.operation import logging
from nextquery.service.service import Service

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ProblemDocument} for status in (400, 401, 408, 413, 422, 500)
}

router = APIRouter(prefix="/admin", responses=PROBLEMS, tags=["administration"])
Here = Annotated[Service, Depends(service_of)]


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

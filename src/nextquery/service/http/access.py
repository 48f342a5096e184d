"""Who calls a route, as FastAPI dependencies.

All are coroutines: FastAPI runs plain functions in a thread, which cost a third of a request. The
routes that are asked most call `service_of` themselves, since every dependency costs time.
"""

from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader

from nextquery.service.http.door import ADMIN_HEADER, API_HEADER, known
from nextquery.service.service import Service
from nextquery.service.trials import Trials

API_KEY = APIKeyHeader(name=API_HEADER, auto_error=False, scheme_name="ApiKey")
ADMIN_KEY = APIKeyHeader(name=ADMIN_HEADER, auto_error=False, scheme_name="AdminKey")


def service_of(request: Request) -> Service:
    """The running service."""
    return cast("Service", request.app.state.service)


def trials_of(request: Request) -> Trials:
    """What makes and records the lists of the running service."""
    return cast("Trials", request.app.state.trials)


async def _here(request: Request) -> Service:
    return service_of(request)


async def owner_of(request: Request, key: Annotated[str | None, Depends(API_KEY)]) -> str:
    """The name of the caller's key; empty where no keys are asked for."""
    service = service_of(request)
    return known(service.keys, key, API_HEADER) if len(service.keys) else ""


async def admin_of(request: Request, key: Annotated[str | None, Depends(ADMIN_KEY)]) -> str:
    """The name of the caller's admin key."""
    return known(service_of(request).admin_keys, key, ADMIN_HEADER)


Here = Annotated[Service, Depends(_here)]
Owner = Annotated[str, Depends(owner_of)]
Admin = Annotated[str, Depends(admin_of)]

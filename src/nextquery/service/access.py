"""FastAPI dependencies of the routes: the service, and the owner of the key of a request."""

from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader

from nextquery.service.answering import Service
from nextquery.service.keys import KeyRing
from nextquery.service.schemas import invalid_key
from nextquery.service.trials import Trials

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

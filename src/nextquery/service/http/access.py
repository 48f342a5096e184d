"""Who may call a route: API keys, admin keys and rate limits, as FastAPI dependencies."""

from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader

from nextquery.service.http.keys import KeyRing
from nextquery.service.http.problems import ProblemError
from nextquery.service.service import Service

API_KEY = APIKeyHeader(name="X-API-Key", auto_error=False, scheme_name="ApiKey")
ADMIN_KEY = APIKeyHeader(name="X-Admin-Key", auto_error=False, scheme_name="AdminKey")


def service_of(request: Request) -> Service:
    """The running service."""
    return cast("Service", request.app.state.service)


def owner_of(request: Request, key: Annotated[str | None, Depends(API_KEY)]) -> str:
    """The name of the caller's key; empty where no keys are asked for."""
    service = service_of(request)
    if not len(service.keys):
        return ""
    name = _known(service.keys, key, "X-API-Key")
    request.scope["key_name"] = name
    return name


def admin_of(request: Request, key: Annotated[str | None, Depends(ADMIN_KEY)]) -> str:
    """The name of the caller's admin key."""
    name = _known(service_of(request).admin_keys, key, "X-Admin-Key")
    request.scope["key_name"] = name
    return name


def admit(request: Request, service: Service, cost: int = 1) -> None:
    """Count a request against its caller's rate."""
    client = request.scope.get("key_name") or (request.client.host if request.client else "")
    wait = service.rate.wait(client, cost)
    if wait:
        headers = {"Retry-After": str(max(1, round(wait)))}
        raise ProblemError(429, "This key or address sends more than its rate.", headers)


def _known(keys: KeyRing, key: str | None, header: str) -> str:
    name = keys.name(key) if key else None
    if name is None:
        raise ProblemError(
            401, f"Send a valid key in the header {header}.", {"WWW-Authenticate": "ApiKey"}
        )
    return name


Owner = Annotated[str, Depends(owner_of)]
Admin = Annotated[str, Depends(admin_of)]

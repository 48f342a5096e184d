"""Errors as the service answers them: one JSON document (RFC 9457) with a request id.

Knows status codes and wording; never repeats what a client sent, so that no query text can reach a
log through an error.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"
FAILED = "Look for the request id in the log."

TITLES = {
    400: "The body is not JSON",
    401: "A valid API key is needed",
    403: "This key may not do that",
    404: "There is nothing here",
    405: "This method is not allowed here",
    408: "The body took too long to arrive",
    409: "That was refused and nothing changed",
    413: "The body is too large",
    422: "The request is not valid",
    429: "Too many requests",
    431: "The headers are too long",
    500: "The service failed",
    501: "This model cannot do that",
    503: "The service is too busy or not ready",
}


class ProblemError(Exception):
    """An answer other than the one asked for."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


class BusyError(ProblemError):
    """503 with the time after which a client may try again; `reason` is a word for the metrics."""

    def __init__(self, detail: str, retry_after: float, reason: str = "") -> None:
        super().__init__(503, detail, {"Retry-After": str(max(1, round(retry_after)))})
        self.reason = reason


def no_key(header: str) -> ProblemError:
    """The refusal of a request without a valid key."""
    detail = f"Send a valid key in the header {header}."
    return ProblemError(401, detail, {"WWW-Authenticate": "ApiKey"})


def too_many(wait: float) -> ProblemError:
    """The refusal of a request beyond its sender's rate."""
    headers = {"Retry-After": str(max(1, round(wait)))}
    return ProblemError(429, "This key or address asks for more than its rate.", headers)


def document(status: int, detail: str, request_id: str) -> dict[str, Any]:
    """The JSON form of a problem."""
    return {
        "title": TITLES.get(status, "The request failed"),
        "status": status,
        "detail": detail,
        "request_id": request_id,
    }


def answer(status: int, detail: str, request_id: str, headers: Mapping[str, str]) -> JSONResponse:
    """A problem as an HTTP response."""
    body = document(status, detail, request_id)
    return JSONResponse(body, status, headers=dict(headers), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every expected error as a problem."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_failure)


def _request_id(request: Request) -> str:
    return str(request.scope.get("request_id", ""))


async def _on_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return answer(error.status, error.detail, _request_id(request), error.headers)


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    # Names of fields only: a position inside the body, never the value found there.
    place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
    detail = f"{place}: {first['msg']}"
    return answer(422, detail, _request_id(request), {})


async def _on_failure(request: Request, error: Exception) -> JSONResponse:
    return answer(500, FAILED, _request_id(request), {})


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = TITLES.get(error.status_code, str(error.detail))
    return answer(error.status_code, detail, _request_id(request), error.headers or {})

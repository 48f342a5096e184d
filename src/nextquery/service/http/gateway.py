"""What happens to every request before and after its route: id, limits, headers, log, counts.

A plain ASGI layer around the whole app. It reads the body itself, so that one too large or too
slow never reaches a route. Knows routes by their template only: a session id is never logged.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from prometheus_client import Counter, Histogram
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextquery.service.http import problems
from nextquery.service.operation import logging
from nextquery.service.operation.prometheus import Metrics
from nextquery.service.settings import BODY_SECONDS, MAX_BODY_BYTES

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
CLIENT_LEFT = 499


class Gateway:
    """The outermost layer of the service."""

    def __init__(self, app: ASGIApp, metrics: Metrics, draining: Callable[[], bool]) -> None:
        self._app = app
        self._metrics = metrics
        self._draining = draining
        # To look a metric up by its labels takes longer than to count with it. Templates and
        # statuses are few: both are the service's own.
        self._metrics_of = cache(self._labelled)

    def _labelled(self, template: str, status: int) -> tuple[Counter, Histogram]:
        labelled = self._metrics.requests.labels(template, str(status))
        return labelled, self._metrics.latency.labels(template)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["request_id"] = secrets.token_hex(8)
        scope["arrived"] = time.perf_counter()
        seen = _Seen(send, scope["request_id"], self._draining)
        self._metrics.in_flight.inc()
        try:
            await self._serve(scope, receive, seen)
        except Exception as error:
            # The routes' own layer has mostly answered already, and raises the error again.
            logging.log_failure("request failed", error, request_id=scope["request_id"])
            if not seen.started:
                await _refuse(scope, receive, seen, 500, problems.FAILED)
        finally:
            self._metrics.in_flight.dec()
            self._record(scope, seen.status)

    async def _serve(self, scope: Scope, receive: Receive, seen: "_Seen") -> None:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(scope, receive)
        except TimeoutError:
            await _refuse(scope, receive, seen, 408, f"Send it within {BODY_SECONDS:.0f} seconds.")
            return
        except _TooLargeError:
            detail = f"At most {MAX_BODY_BYTES} bytes are read."
            await _refuse(scope, receive, seen, 413, detail, {"Connection": "close"})
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), seen)

    def _record(self, scope: Scope, status: int) -> None:
        seconds = time.perf_counter() - scope["arrived"]
        # Starlette leaves the matched route in the scope; without one the area is known at most.
        template = getattr(scope.get("route"), "path", scope.get("area", "unmatched"))
        counter, latency = self._metrics_of(template, status)
        counter.inc()
        latency.observe(seconds)
        if template not in _QUIET:
            logging.log_event(
                "request",
                request_id=scope["request_id"],
                method=scope["method"],
                route=template,
                status=status,
                ms=round(seconds * 1000, 2),
                key=scope.get("key_name"),
            )


class _Seen:
    """A `send` that adds headers and remembers the status."""

    def __init__(self, send: Send, request_id: str, draining: Callable[[], bool]) -> None:
        self._send = send
        self._request_id = request_id
        self._draining = draining
        self.status = CLIENT_LEFT
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = [*message.get("headers", ()), *_HEADERS]
            headers.append((b"x-request-id", self._request_id.encode()))
            if self._draining():
                # Tells clients that keep connections open to go elsewhere before the end.
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        await self._send(message)


class _TooLargeError(Exception):
    pass


async def _read_body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None if the client left while sending it."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if length.isdigit() and int(length) > MAX_BODY_BYTES:
        raise _TooLargeError
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise _TooLargeError
        more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _refuse(
    scope: Scope,
    receive: Receive,
    send: Send,
    status: int,
    detail: str,
    headers: dict[str, Any] | None = None,
) -> None:
    response: Response = problems.answer(status, detail, scope["request_id"], headers or {})
    await response(scope, receive, send)

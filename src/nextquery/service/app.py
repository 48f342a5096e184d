"""The ASGI application: what a request passes through before its route, and the life cycle.

A request passes through, in this order:

1. `Gateway`: request id, bounded body, security headers, metrics and the log entry.
2. CORS, where origins are configured.
3. `AuthMiddleware`: API key and rate limit.
4. `HotRoutes`: `/v1/suggest` and `/v1/complete` call their route function directly, because
   FastAPI's own handling takes longer than a list of a count model. All else goes to FastAPI.
5. The route function in `routes`.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import Counter, Histogram
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextquery._version import __version__
from nextquery.service import monitoring, routes, schemas
from nextquery.service.answering import ClientLeftError, Service
from nextquery.service.routes import ADMIN_HEADER, API_HEADER, owner_of
from nextquery.service.schemas import ProblemError, invalid_key, rate_exceeded
from nextquery.service.settings import BODY_SECONDS, MAX_BODY_BYTES
from nextquery.service.trials import Trials

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
_ADMIN_HEADER = ADMIN_HEADER.lower().encode()
_DOCUMENTS = ("/docs", "/openapi.json", "/static/swagger")
CLIENT_LEFT = 499
_CLOSE = {"Connection": "close"}
"""Sent where a part of the request was not read: what follows is not the next request."""


class Gateway:
    """The outermost layer of the service."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._metrics = service.metrics
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
        recorded_send = _RecordingSend(send, scope, self._service)
        self._metrics.in_flight.inc()
        try:
            await self._serve(scope, receive, recorded_send)
        except Exception as error:
            # The routes' own layer has mostly answered already, and raises the error again.
            monitoring.log_failure("request failed", error, request_id=scope["request_id"])
            if not recorded_send.started:
                problem = ProblemError(500, schemas.FAILED)
                await _refuse(scope, receive, recorded_send, problem)
        finally:
            self._metrics.in_flight.dec()
            self._record(scope, recorded_send.status)

    async def _serve(self, scope: Scope, receive: Receive, recorded_send: "_RecordingSend") -> None:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(scope, receive)
        except TimeoutError:
            late = ProblemError(408, f"Send it within {BODY_SECONDS:.0f} seconds.", _CLOSE)
            await _refuse(scope, receive, recorded_send, late)
            return
        except ProblemError as refusal:
            await _refuse(scope, receive, recorded_send, refusal)
            return
        if body is not None:
            message = {"type": "http.request", "body": body, "more_body": False}
            await self._app(scope, _replay(message, receive), recorded_send)

    def _record(self, scope: Scope, status: int) -> None:
        seconds = time.perf_counter() - scope["arrived"]
        # Starlette leaves the matched route in the scope; without one the area is known at most.
        template = getattr(scope.get("route"), "path", scope.get("area", "unmatched"))
        counter, latency = self._metrics_of(template, status)
        counter.inc()
        latency.observe(seconds)
        if template not in _QUIET:
            monitoring.log_event(
                "request",
                request_id=scope["request_id"],
                method=scope["method"],
                route=template,
                status=status,
                ms=round(seconds * 1000, 2),
                key=scope.get("key_name"),
            )


class _RecordingSend:
    """A `send` that adds headers and remembers the status."""

    def __init__(self, send: Send, scope: Scope, service: Service) -> None:
        self._send = send
        self._scope = scope
        self._service = service
        self.status = CLIENT_LEFT
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = [*message.get("headers", ()), *_HEADERS]
            headers.append((b"x-request-id", self._scope["request_id"].encode()))
            if "admin_since" in self._scope:
                ms = (time.perf_counter() - self._scope["admin_since"]) * 1000
                headers.append((b"server-timing", f"total;dur={ms:.2f}".encode()))
            if self._service.draining:
                # Tells clients that keep connections open to go elsewhere before the end.
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        await self._send(message)


async def _read_body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None if the client left while sending it."""
    too_large = ProblemError(413, f"At most {MAX_BODY_BYTES} bytes are read.", _CLOSE)
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if length.isdigit() and int(length) > MAX_BODY_BYTES:
        raise too_large
    # Not a list of parts: a part of a few bytes takes fifty.
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise too_large
        more = message.get("more_body", False)
    return bytes(body)


def _replay(message: Message, receive: Receive) -> Receive:
    """A `receive` that starts with a message that was already received."""
    replayed = False

    async def receive_first() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return message

    return receive_first


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: ProblemError) -> None:
    response = schemas.problem_response(refusal, scope["request_id"])
    await response(scope, receive, send)


class AuthMiddleware:
    """Checks the key that a path needs, applies the rate limit, and answers refusals.

    Refusals of `HotRoutes` are answered here, too; FastAPI answers those of its own routes.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        area = self._area(scope)
        if area is None:
            await self._app(scope, receive, send)
            return
        scope["area"] = area
        try:
            self._admit(scope, area)
            if self._is_admin(scope):
                # For admin keys only: response times could tell visitors what others have asked.
                scope["admin_since"] = time.perf_counter()
            await self._app(scope, receive, send)
        except ProblemError as refusal:
            await _refuse(scope, receive, send, refusal)
        except ClientLeftError:
            self._service.metrics.cancelled.inc()
            await Response(status_code=CLIENT_LEFT)(scope, receive, send)

    def _is_admin(self, scope: Scope) -> bool:
        """Whether a request has an admin key, whatever it asks for."""
        keys = [value for name, value in scope["headers"] if name == _ADMIN_HEADER]
        admin_keys = self._service.admin_keys
        return bool(keys) and admin_keys.name(keys[-1].decode("latin-1")) is not None

    def _area(self, scope: Scope) -> str | None:
        """The part of the service that a request is for; None where no key is needed."""
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            return None
        path: str = scope["path"]
        public = self._service.settings.public
        for area in ("/v1", "/admin"):
            if path == area or path.startswith(f"{area}/"):
                return area
        if path == "/metrics" and "metrics" not in public:
            return path
        if path.startswith(_DOCUMENTS) and "docs" not in public:
            return "/docs"
        return None

    def _admit(self, scope: Scope, area: str) -> None:
        headers = Headers(scope=scope)
        if area == "/admin":
            keys, header = self._service.admin_keys, ADMIN_HEADER
        else:
            keys, header = self._service.keys, API_HEADER
        name = keys.name(headers.get(header, "")) if len(keys) else None
        client = scope.get("client")
        address = f"address {client[0] if client else ''}"
        # Guesses at keys are counted by address: a wrong key has no name.
        scope["rate_name"] = f"key {name}" if name else address
        visitor = ""
        if name:
            scope["key_name"] = name
            if self._service.settings.trusted_proxies:
                # Elsewhere an address may be that of a site's server, which many visitors share.
                visitor = scope["visitor"] = address
        if wait := self._service.rate.wait(scope["rate_name"], visitor=visitor):
            raise rate_exceeded(wait)
        if name is None and (len(keys) or area == "/admin"):
            raise invalid_key(header) if len(keys) else ProblemError(404, schemas.TITLES[404])


JSON = b"application/json"
Handler = Callable[[Any, Request, str], Awaitable[BaseModel]]
HOT: dict[str, tuple[type[BaseModel], Handler]] = {
    "/v1/suggest": (schemas.SuggestRequest, routes.suggest),
    "/v1/complete": (schemas.CompleteRequest, routes.complete),
}


class HotRoutes:
    """Calls the route functions of `HOT` for valid JSON, and passes everything else to FastAPI."""

    def __init__(self, api: FastAPI) -> None:
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        hot = HOT.get(scope["path"]) if scope["type"] == "http" else None
        if hot is None or scope["method"] != "POST" or not _is_json(scope):
            await self._api(scope, receive, send)
            return
        message = await receive()  # the gateway has read the whole body
        schema, handler = hot
        try:
            parsed = schema.model_validate_json(message["body"])
        except (ValidationError, ValueError, KeyError):
            # FastAPI words the refusal.
            await self._api(scope, _replay(message, receive), send)
            return
        scope["app"] = self._api
        scope["route"] = SimpleNamespace(path=scope["path"])  # for the metrics
        request = Request(scope, receive)
        owner = await owner_of(request, request.headers.get(API_HEADER))
        body = (await handler(parsed, request, owner)).model_dump_json(exclude_unset=True).encode()
        headers = [(b"content-length", str(len(body)).encode()), (b"content-type", JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _is_json(scope: Scope) -> bool:
    content_types = (value for name, value in scope["headers"] if name == b"content-type")
    return next(content_types, b"").partition(b";")[0] == JSON


_HOUR = 3600.0
DESCRIPTION = "Query suggestions learnt from a site's own query log."
LINKS = {
    "FeedbackOnThisList": {
        "operationId": "feedback_v1_feedback_post",
        "requestBody": {
            "action": "dismissed",
            "query_id": "$response.body#/query_id",
            "client_id": "visitor",
            "query": "$request.body#/query",
        },
        "description": "Tell what the user did with the list.",
    },
    "NextInThisSession": {
        "operationId": "suggest_v1_suggest_post",
        "requestBody": {"query": "next query", "session_id": "$request.body#/session_id"},
        "description": "The session is kept under its id: the earlier queries need not be sent.",
    },
    "ForgetThisSession": {
        "operationId": "delete_session_v1_sessions__session_id__delete",
        "parameters": {"session_id": "$request.body#/session_id"},
        "description": "Forget what was typed in the session.",
    },
}
"""What can be done with an answer of `/v1/suggest`."""


def build_api(service: Service) -> FastAPI:
    """The routes of a service."""
    app = FastAPI(
        title="nextquery",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        # A redirect would lead to whatever host the request names.
        redirect_slashes=False,
        lifespan=_life,
    )
    app.state.service = service
    app.state.trials = Trials(service)
    app.include_router(routes.router)
    if len(service.admin_keys):
        app.include_router(routes.admin_router)
    app.include_router(routes.page_router)
    routes.mount_files(app)
    schemas.install(app)
    app.add_exception_handler(ClientLeftError, _on_client_left)
    app.openapi = lambda: _openapi(app, service)  # type: ignore[method-assign]
    return app


def build_app(service: Service) -> ASGIApp:
    """The application that the server runs: all layers around the routes."""
    api = build_api(service)
    wrapped: ASGIApp = AuthMiddleware(HotRoutes(api), service)
    if service.settings.cors_origins:
        wrapped = CORSMiddleware(
            wrapped,
            allow_origins=service.settings.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Content-Type", "X-API-Key"],
            expose_headers=["Retry-After"],  # clients wait for as long as it says
        )
    return Gateway(wrapped, service)


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """Answer health checks at once, load in the background, watch the control files."""
    service: Service = app.state.service
    service.models.start()
    tasks = [asyncio.create_task(_watch(service)), asyncio.create_task(_expire(service))]
    if not service.models.ready:
        tasks.append(asyncio.create_task(service.load()))
    yield
    app.state.trials.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await service.models.stop()
    await service.sessions.close()
    await service.visitors.close()
    service.metrics.share(at_once=True)


async def _watch(service: Service) -> None:
    def on_reload() -> None:
        reloads.add(task := asyncio.create_task(service.load()))
        task.add_done_callback(reloads.discard)

    def on_check() -> None:
        service.models.refresh()
        service.metrics.share()

    reloads: set[asyncio.Task[None]] = set()
    await service.control.watch(on_reload, on_check)


async def _expire(service: Service) -> None:
    """Delete feedback files that are too old, now and every hour."""
    days = service.settings.feedback_days
    while service.feedback is not None and days is not None:
        try:
            gone = await asyncio.to_thread(service.feedback.expire, days)
        except OSError as error:
            monitoring.log_failure("old feedback cannot be deleted", error, reason=str(error))
        else:
            if gone:
                monitoring.log_event("old feedback deleted", files=len(gone))
        await asyncio.sleep(_HOUR)


async def _on_client_left(request: Request, error: Exception) -> Response:
    request.app.state.service.metrics.cancelled.inc()
    return Response(status_code=CLIENT_LEFT)


def _openapi(app: FastAPI, service: Service) -> dict[str, Any]:
    """The OpenAPI document, with the settings of the running service."""
    if app.openapi_schema is None:
        schema = FastAPI.openapi(app)
        for path in schema["paths"].values():
            for operation in path.values():
                _name_problem_type(operation["responses"])
                if not len(service.keys) and {"ApiKey": []} in operation.get("security", []):
                    del operation["security"]  # nobody is asked for a key here
        for shape in schema["components"]["schemas"].values():
            if "model" in shape.get("properties", {}) and "session_id" in shape["properties"]:
                shape["properties"]["model"]["anyOf"][0]["enum"] = list(service.models.served)
        schema["paths"]["/v1/suggest"]["post"]["responses"]["200"]["links"] = LINKS
        app.openapi_schema = schema
    return app.openapi_schema


def _name_problem_type(responses: dict[str, Any]) -> None:
    """Problems are sent as `application/problem+json`; FastAPI has only one type per route."""
    for response in responses.values():
        content = response.get("content", {})
        shape = content.get("application/json", {}).get("schema", {})
        if shape.get("$ref", "").endswith("/ProblemDocument"):
            response["content"] = {schemas.MEDIA_TYPE: content["application/json"]}

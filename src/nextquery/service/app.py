"""The service as an ASGI app: routes, the OpenAPI document, the life of the process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import Response
from starlette.requests import Request
from starlette.types import ASGIApp

from nextquery._version import __version__
from nextquery.service.http import admin, pages, problems, routes
from nextquery.service.http.door import Door
from nextquery.service.http.gateway import CLIENT_LEFT, Gateway
from nextquery.service.http.hot_routes import HotRoutes
from nextquery.service.operation import logging
from nextquery.service.service import Service
from nextquery.service.trials import Trials
from nextquery.service.waiting import ClientLeftError

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
        lifespan=_life,
    )
    app.state.service = service
    app.state.trials = Trials(service)
    app.include_router(routes.router)
    if len(service.admin_keys):
        app.include_router(admin.router)
    app.include_router(pages.router)
    pages.mount_files(app)
    problems.install(app)
    app.add_exception_handler(ClientLeftError, _on_client_left)
    app.openapi = lambda: _openapi(app, service)  # type: ignore[method-assign]
    return app


def build_app(service: Service) -> ASGIApp:
    """The routes behind the gateway: what the server runs."""
    api = build_api(service)
    wrapped: ASGIApp = Door(HotRoutes(api), service)
    if service.settings.cors_origins:
        wrapped = CORSMiddleware(
            wrapped,
            allow_origins=service.settings.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Content-Type", "X-API-Key"],
        )
    return Gateway(wrapped, service.metrics, lambda: service.draining)


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """Answer health checks at once, load in the background, look at the control files."""
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


async def _watch(service: Service) -> None:
    def on_reload() -> None:
        reloads.add(task := asyncio.create_task(service.load()))
        task.add_done_callback(reloads.discard)

    reloads: set[asyncio.Task[None]] = set()
    await service.control.watch(on_reload, service.models.refresh)


async def _expire(service: Service) -> None:
    """Delete feedback files that are too old, now and every hour."""
    days = service.settings.feedback_days
    while service.feedback is not None and days is not None:
        try:
            gone = await asyncio.to_thread(service.feedback.expire, days)
        except OSError as error:
            logging.log_failure("old feedback cannot be deleted", error)
        else:
            if gone:
                logging.log_event("old feedback deleted", files=len(gone))
        await asyncio.sleep(_HOUR)


async def _on_client_left(request: Request, error: Exception) -> Response:
    request.app.state.service.metrics.cancelled.inc()
    return Response(status_code=CLIENT_LEFT)


def _openapi(app: FastAPI, service: Service) -> dict[str, Any]:
    """The OpenAPI document, with what only a running service knows."""
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
    """Problems are sent as `application/problem+json`; FastAPI knows one type a route only."""
    for response in responses.values():
        content = response.get("content", {})
        shape = content.get("application/json", {}).get("schema", {})
        if shape.get("$ref", "").endswith("/ProblemDocument"):
            response["content"] = {problems.MEDIA_TYPE: content["application/json"]}

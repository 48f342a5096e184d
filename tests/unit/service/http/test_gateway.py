"""The layer around all routes, called as a server calls it."""

import asyncio
import json
from typing import Any

from nextquery.service.app import build_api
from nextquery.service.http.gateway import Gateway
from nextquery.service.operation.prometheus import Metrics
from nextquery.service.service import build_service
from nextquery.service.settings import ServiceSettings

SCOPE = {
    "type": "http", "method": "GET", "path": "/fails", "raw_path": b"/fails", "query_string": b"",
    "headers": [], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http",
    "http_version": "1.1", "root_path": "",
}  # fmt: skip


def sent(app: Any, scope: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that an app sends for a request without a body."""
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(app({**SCOPE, **scope}, receive, send))
    return messages


def test_an_unexpected_error_is_one_answer_and_a_problem(settings: ServiceSettings) -> None:
    service = build_service(settings)
    api = build_api(service)

    @api.get("/fails")
    async def fails() -> None:
        raise RuntimeError("a text that nobody may see")

    start, body = sent(Gateway(api, Metrics(), lambda: False), {})
    assert start["status"] == 500
    assert dict(start["headers"])[b"content-type"] == b"application/problem+json"
    problem = json.loads(body["body"])
    assert problem["request_id"].encode() == dict(start["headers"])[b"x-request-id"]
    assert "nobody" not in json.dumps(problem)


def test_an_error_outside_the_routes_is_one_answer_too() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError

    start, body = sent(Gateway(broken, Metrics(), lambda: False), {})
    assert start["status"] == 500
    assert json.loads(body["body"])["status"] == 500

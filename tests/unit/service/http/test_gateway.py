"""The layer around all routes, called as a server calls it."""

import asyncio
import json
from typing import Any

import pytest

from nextquery.service import app
from nextquery.service.answering import build_service
from nextquery.service.app import Gateway, build_api
from nextquery.service.monitoring import Metrics
from nextquery.service.settings import MAX_BODY_BYTES, ServiceSettings

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


def test_a_connection_closes_where_a_body_was_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows on the connection is the rest of the body, not a request."""
    monkeypatch.setattr(app, "BODY_SECONDS", 0.05)

    async def unused(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("not reached")

    def refused(*parts: bytes) -> tuple[int, bytes | None]:
        messages: list[dict[str, Any]] = []
        given = iter(parts)

        async def receive() -> dict[str, Any]:
            part = next(given, None)
            if part is None:
                await asyncio.sleep(30)
            return {"type": "http.request", "body": part, "more_body": True}

        async def send(message: Any) -> None:
            messages.append(message)

        asyncio.run(Gateway(unused, Metrics(), lambda: False)({**SCOPE}, receive, send))
        return messages[0]["status"], dict(messages[0]["headers"]).get(b"connection")

    assert refused(b"{") == (408, b"close")
    assert refused(b"x" * MAX_BODY_BYTES, b"x") == (413, b"close")

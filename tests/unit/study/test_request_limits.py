import asyncio
from typing import Any

import pytest
from starlette.types import Message

from nextquery.study import app
from nextquery.study.app import MAX_BODY_BYTES, RequestLimits


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def _ask(parts: list[bytes], end: bool = True) -> tuple[int, bytes, dict[bytes, bytes]]:
    """Send a body in parts; without an end the client stays silent after the last one."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if end:
        messages[-1]["more_body"] = False
    sent: list[Message] = []

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        return await asyncio.Event().wait()

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Any = {"type": "http", "method": "POST", "path": "/", "headers": []}
    asyncio.run(RequestLimits(_echo)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])


def test_a_small_body_passes_whole_with_safe_headers() -> None:
    status, body, headers = _ask([b"a", b"b" * (MAX_BODY_BYTES - 1)])
    assert (status, body) == (200, b"a" + b"b" * (MAX_BODY_BYTES - 1))
    assert headers[b"referrer-policy"] == b"no-referrer"
    assert b"default-src 'self'" in headers[b"content-security-policy"]


def test_a_body_that_never_ends_is_refused_when_it_is_too_large() -> None:
    status, body, headers = _ask([b"x" * 1000] * 5, end=False)
    assert status == 413
    assert b"4096" in body
    assert headers[b"connection"] == b"close"


def test_a_body_that_does_not_come_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY_SECONDS", 0.01)
    assert _ask([b"x"], end=False)[0] == 408

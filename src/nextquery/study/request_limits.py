"""What holds for every request to a study: a small body that comes in time, safe headers.

A plain ASGI layer around the whole app, so that a body too large never reaches a route.
"""

import asyncio

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 4096
"""A judgement has about 40."""
BODY_SECONDS = 10.0

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the token is in the address
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class RequestLimits:
    """Refuses bodies that are too large (413) or too slow (408); adds the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(receive)
        except TimeoutError:
            await _refuse(408, "The judgement took too long to arrive.", scope, send_with_headers)
        else:
            if body is None:
                detail = f"At most {MAX_BODY_BYTES} bytes are read."
                await _refuse(413, detail, scope, send_with_headers)
            else:
                await self._app(scope, _replay(body, receive), send_with_headers)


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body; None if it is too large. What is left of a client that left is its part."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return None
        more = message.get("more_body", False)
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Message:
        message = next(parts, None)
        return await receive() if message is None else message

    return replayed


async def _refuse(status: int, detail: str, scope: Scope, send: Send) -> None:
    headers = {"Connection": "close"}

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    await JSONResponse({"detail": detail}, status, headers)(scope, nothing, send)

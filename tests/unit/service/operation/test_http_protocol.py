"""The bound on a request's head, with a real server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from nextquery.service.operation.http_protocol import MOST_HEAD_BYTES, BoundedHeadProtocol


async def _app(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await receive()
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


def with_server(scenario: Callable[[int], Awaitable[None]]) -> None:
    async def main() -> None:
        config = uvicorn.Config(
            _app, port=0, http=BoundedHeadProtocol, ws="none", lifespan="off", log_config=None
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            await scenario(server.servers[0].sockets[0].getsockname()[1])
        finally:
            server.should_exit = True
            await serving

    asyncio.run(main())


async def answered(port: int, *pieces: bytes) -> bytes:
    """The first line of the answer to what is sent piece by piece."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        return (await asyncio.wait_for(reader.readline(), 30)).strip()
    except ConnectionError:
        return (await reader.readline()).strip()
    finally:
        writer.close()


LINE = b"GET / HTTP/1.1\r\nhost: x\r\n"


def test_ordinary_and_repeated_requests_pass() -> None:
    async def scenario(port: int) -> None:
        header = b"a: " + b"b" * (MOST_HEAD_BYTES - 200) + b"\r\n"
        assert await answered(port, LINE + b"\r\n") == b"HTTP/1.1 200 OK"
        assert await answered(port, LINE + header + b"\r\n") == b"HTTP/1.1 200 OK"
        body = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 900000\r\n\r\n" + b"x" * 900_000
        assert await answered(port, body) == b"HTTP/1.1 200 OK", "a body is no head"

    with_server(scenario)


def test_a_head_that_is_too_long_is_refused_however_it_comes() -> None:
    async def scenario(port: int) -> None:
        long = b"a: " + b"b" * (MOST_HEAD_BYTES + 1) + b"\r\n"
        many = b"".join(b"h%d: %s\r\n" % (n, b"v" * 50) for n in range(1000))
        for head in (LINE + long + b"\r\n", LINE + many + b"\r\n"):
            assert (await answered(port, head)).startswith(b"HTTP/1.1 431")
        assert (await answered(port, LINE, *[b"b: " + b"c" * 8000 + b"\r\n"] * 5)).startswith(
            b"HTTP/1.1 431"
        ), "one that never ends"
        path = b"GET /" + b"p" * (MOST_HEAD_BYTES + 1) + b" HTTP/1.1\r\nhost: x\r\n\r\n"
        assert (await answered(port, path)).startswith(b"HTTP/1.1 431")

    with_server(scenario)


def test_an_upgrade_to_a_websocket_is_an_ordinary_request() -> None:
    async def scenario(port: int) -> None:
        upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        key = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        assert await answered(port, LINE + upgrade + key) == b"HTTP/1.1 200 OK"

    with_server(scenario)

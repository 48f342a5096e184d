"""What a client can make a connection hold, with real servers and sockets."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn

from nextquery.service import run as service_run
from nextquery.service.run import FIELD_BYTES, MOST_HEAD_BYTES, BoundedProtocol

pytestmark = pytest.mark.anyio
LINE = b"GET / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
SECONDS_OF_QUIET = 0.3
LARGE = 20_000_000
"""More than two sockets keep for each other."""


class Server:
    """A server whose app tells what it was asked, and answers as the path says."""

    def __init__(self) -> None:
        config = uvicorn.Config(
            self._app,
            port=0,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            interface="asgi3",
        )
        self.server = uvicorn.Server(config)
        self.asked: list[str] = []
        self.left = 0
        self.go_on = asyncio.Event()

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        path: str = scope["path"]
        self.asked.append(path)
        message, body = {"more_body": True}, b""
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left += 1
                return
            body += message["body"]
        if path == "/slow":
            # As the service does: it looks whether the client is gone while the model works.
            leaving = asyncio.ensure_future(receive())
            await self.go_on.wait()
            leaving.cancel()
        names = [name.decode() for name, _ in scope["headers"]]
        answer = json.dumps([path, len(body), names]).encode()
        if path == "/large":
            answer = b"x" * LARGE
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    @property
    def port(self) -> int:
        return int(self.server.servers[0].sockets[0].getsockname()[1])

    @property
    def connections(self) -> set[Any]:
        return self.server.server_state.connections

    async def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited {seconds} s"
            await asyncio.sleep(0.01)


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def server(anyio_backend: Any) -> AsyncIterator[Server]:
    running = Server()
    serving = asyncio.create_task(running.server.serve())
    await running.until(lambda: running.server.started)
    yield running
    running.go_on.set()
    running.server.should_exit = True
    await serving


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second instead of ten."""
    for name in ("HEAD_SECONDS", "UNREAD_SECONDS", "STOP_SECONDS"):
        monkeypatch.setattr(service_run, name, 0.5)


async def talk(server: Server, *pieces: bytes, quiet: float = SECONDS_OF_QUIET) -> bytes:
    """Everything that is answered until the connection closes or is quiet after an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    parts: list[bytes] = []

    async def read() -> None:
        with contextlib.suppress(ConnectionError):
            while part := await asyncio.wait_for(reader.read(1 << 16), 30):
                parts.append(part)

    reading = asyncio.create_task(read())
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            if reading.done():
                break  # to send more would make the kernel drop the answer
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
    known = -1
    while not reading.done() and len(parts) != known:
        known = len(parts) or -1
        await asyncio.wait([reading], timeout=quiet)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    writer.close()
    return b"".join(parts)


async def status(server: Server, *pieces: bytes) -> int:
    return int((await talk(server, *pieces)).split()[1])


def bodies(answer: bytes) -> list[Any]:
    """The JSON documents of pipelined answers."""
    parts = answer.split(b"HTTP/1.1 ")[1:]
    return [json.loads(part.split(b"\r\n\r\n", 1)[1]) for part in parts]


async def test_ordinary_and_repeated_requests_pass(server: Server) -> None:
    header = b"a: " + b"b" * (MOST_HEAD_BYTES - 200) + b"\r\n"
    assert await status(server, LINE + b"\r\n") == 200
    assert await status(server, LINE + header + b"\r\n") == 200
    post = b"POST / HTTP/1.1\r\nhost: x\r\n"
    for head, body in (
        (post + b"content-length: 900000\r\n\r\n", b"x" * 900_000),
        (CHUNKED, b"1000\r\n" + b"x" * 4096 + b"\r\n" + b"0\r\n\r\n"),
        (CHUNKED, (b"400\r\n" + b"x" * 1024 + b"\r\n") * 900 + b"0\r\nt: 1\r\n\r\n"),
    ):
        assert await status(server, head + body) == 200, "a body is not a head"
    twice = bodies(await talk(server, LINE + b"\r\n", LINE + b"\r\n"))
    assert [path for path, _, _ in twice] == ["/", "/"]


@pytest.mark.parametrize(
    "pieces",
    [
        [LINE + b"a: " + b"b" * (MOST_HEAD_BYTES + 1) + b"\r\n\r\n"],
        [LINE + b"".join(b"h%d: %s\r\n" % (n, b"v" * 50) for n in range(1000)) + b"\r\n"],
        [LINE + b"a:\r\n" * (MOST_HEAD_BYTES // FIELD_BYTES) + b"\r\n"],
        [LINE, *[b"b: " + b"c" * 8000 + b"\r\n"] * 5],
        [LINE, *[b"b" * 8000] * 5],
        [b"GET /" + b"p" * (MOST_HEAD_BYTES + 1) + b" HTTP/1.1\r\nhost: x\r\n\r\n"],
        [b"\r\n" * MOST_HEAD_BYTES],
        [CHUNKED + b"0\r\n", *[b"t: v\r\n" * 100] * 100],
        [CHUNKED + b"0\r\nt: ", *[b"v" * 8000] * 5],
        [CHUNKED + b"0\r\n", *[b"t" * 8000] * 5],
        [CHUNKED + b"1;", *[b"e" * 8000] * 5],
        [CHUNKED, *[b"1;e=%s\r\nx\r\n" % (b"v" * 100) * 100] * 4],
        [CHUNKED, *[b"1\r\nx\r\n" * 2000] * 4],
        [CHUNKED + b"0\r\n" + b"t: v\r\n" * 10_000 + b"\r\n" + LINE + b"\r\n"],
    ],
    ids=[
        "one header", "a thousand headers", "empty headers", "headers without end", "a name",
        "a path", "empty lines", "trailers", "one trailer", "a trailer's name", "a chunk extension",
        "chunk extensions", "tiny chunks", "trailers before a request",
    ],
)  # fmt: skip
async def test_heads_trailers_and_chunk_headers_are_bounded(
    server: Server, pieces: list[bytes]
) -> None:
    answer = await talk(server, *pieces)
    assert [body["status"] for body in bodies(answer)] == [431]
    assert b"connection: close" in answer
    await server.until(lambda: not server.connections)
    # An app that was already reading the body is told that its client left.
    assert len(server.asked) == server.left


@pytest.mark.parametrize(
    "name",
    [b"x-api-key", b"authorization", b"content-type", b"x-forwarded-for", b"host", b"expect"],
)
async def test_trailers_are_not_headers(server: Server, name: bytes) -> None:
    body = b"2\r\nab\r\n0\r\n" + name + b": secret\r\n\r\n"
    [[_, length, names]] = bodies(await talk(server, CHUNKED + body))
    assert length == 2
    assert names == ["host", "transfer-encoding"]
    pieces = [body[at : at + 1] for at in range(len(body))]
    [[_, length, names]] = bodies(await talk(server, CHUNKED, *pieces))
    assert names == ["host", "transfer-encoding"]


@pytest.mark.parametrize("name", [b"content-length: 50", b"transfer-encoding: chunked"])
async def test_a_trailer_does_not_change_where_a_request_ends(server: Server, name: bytes) -> None:
    first = CHUNKED + b"2\r\nab\r\n0\r\n" + name + b"\r\n\r\n"
    answers = bodies(await talk(server, first + b"GET /second HTTP/1.1\r\nhost: x\r\n\r\n"))
    if "status" in answers[0]:
        assert [answer["status"] for answer in answers] == [400]
    else:
        assert [answer[:2] for answer in answers] == [["/", 2], ["/second", 0]]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        CHUNKED + b"nonsense\r\n",
        LINE + b"a: b\r\n c\r\n\r\n",  # obs-fold
        LINE + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
async def test_a_connection_closes_after_bytes_that_are_not_http(
    server: Server, request_bytes: bytes
) -> None:
    answers = bodies(await talk(server, request_bytes, LINE + b"\r\n"))
    assert [answer["status"] for answer in answers] == [400]
    await server.until(lambda: not server.connections)


async def test_a_connection_closes_where_the_client_asks_for_it(server: Server) -> None:
    second = b"GET /second HTTP/1.1\r\nhost: x\r\n\r\n"
    for first in (LINE + b"connection: close\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"):
        answers = bodies(await talk(server, first + second, second))
        assert [path for path, _, _ in answers] == ["/"]
    assert "/second" not in server.asked


async def test_an_upgrade_is_an_ordinary_request_and_the_last(server: Server) -> None:
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    key = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    second = b"GET /second HTTP/1.1\r\nhost: x\r\n\r\n"
    for rest in ([key + second], [key, second], [key + b"x" * 2000 + second, second]):
        answers = bodies(await talk(server, LINE + upgrade, *rest))
        assert [path for path, _, _ in answers] == ["/"]
    assert "/second" not in server.asked, "what follows an upgrade is not HTTP"


async def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    requests = b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % n for n in range(3000))
    answers = bodies(await talk(server, requests))
    assert [path for path, _, _ in answers] == [f"/{n}" for n in range(3000)]
    body = b"content-length: 5000\r\n\r\n" + b"x" * 5000
    posts = b"".join(b"POST /%d HTTP/1.1\r\nhost: x\r\n%s" % (n, body) for n in range(50))
    answers = bodies(await talk(server, posts))
    assert [answer[:2] for answer in answers] == [[f"/{n}", 5000] for n in range(50)]


async def test_pipelined_requests_wait_in_the_socket(server: Server) -> None:
    """Neither as bytes nor as requests may they pile up while the first is answered."""

    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
    await server.until(lambda: server.asked == ["/slow"])
    [connection] = server.connections
    for _ in range(100):
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 5000)  # 9 MB
        await asyncio.sleep(0.002)
    assert 0 < len(connection.pipeline) < 100
    assert 0 < len(connection._unparsed) <= 512 * 1024
    assert len(server.asked) == 1
    server.go_on.set()
    await server.until(lambda: len(server.asked) > 1000)
    writer.transport.abort()
    await server.until(lambda: not server.connections)


async def test_a_refusal_does_not_cut_into_an_earlier_answer(server: Server) -> None:
    slow = b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n"
    for bad in (b"nonsense\r\n\r\n", LINE + b"a" * 40_000, CHUNKED + b"nonsense\r\n"):
        server.go_on.clear()
        talking = asyncio.create_task(talk(server, slow, bad))
        await asyncio.sleep(0.2)
        server.go_on.set()
        assert [answer[0] for answer in bodies(await talking)] == ["/slow"]
        await server.until(lambda: not server.connections)


@pytest.mark.parametrize("head", [b"G", LINE, LINE + b"a: ", LINE + b"\r\n" + LINE])
@pytest.mark.usefixtures("short")
async def test_a_head_that_does_not_end_is_refused_after_a_while(
    server: Server, head: bytes
) -> None:
    begin = time.monotonic()
    answers = bodies(await talk(server, head, quiet=10))
    assert answers[-1]["status"] == 408
    assert time.monotonic() - begin < 20
    assert not server.connections


async def test_a_connection_that_asks_nothing_is_closed(server: Server) -> None:
    server.server.config.timeout_keep_alive = 1
    for silence in (b"", b"\r\n"):
        assert await talk(server, silence) == b""
        assert not server.connections


async def stopped_reader(server: Server, head: bytes) -> socket.socket:
    """A client that asks for more than the sockets keep, and reads nothing."""
    client = socket.create_connection(("127.0.0.1", server.port))
    client.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(client, head)
    await server.until(lambda: server.asked == ["/large"])
    return client


@pytest.mark.parametrize("more", [b"", b"connection: close\r\n"])
@pytest.mark.usefixtures("short")
async def test_an_answer_that_is_not_read_is_dropped_after_a_while(
    server: Server, more: bytes
) -> None:
    head = b"GET /large HTTP/1.1\r\nhost: x\r\n" + more + b"\r\n"
    with await stopped_reader(server, head):
        await server.until(lambda: not server.connections, 15)


@pytest.mark.usefixtures("short")
async def test_an_answer_that_is_read_slowly_arrives(server: Server) -> None:
    head = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n"
    with await stopped_reader(server, head) as client:
        size, loop = 0, asyncio.get_running_loop()
        await asyncio.sleep(0.2)
        while size < LARGE:
            size += len(await asyncio.wait_for(loop.sock_recv(client, 1 << 20), 10))
        await asyncio.sleep(1)
        assert len(server.connections) == 1, "it read, and may ask again"


@pytest.mark.parametrize("path", [b"GET /large HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n"])
async def test_neither_a_stopped_reader_nor_a_stopped_sender_delays_the_end(
    server: Server, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    monkeypatch.setattr(service_run, "STOP_SECONDS", 0.5)
    client = socket.create_connection(("127.0.0.1", server.port))
    more = b"" if path.startswith(b"GET") else b"content-length: 9\r\n"
    client.sendall(path + b"host: x\r\n" + more + b"\r\n")
    await server.until(lambda: len(server.asked) == 1)
    await asyncio.sleep(0.1)
    begin = time.monotonic()
    await asyncio.wait_for(server.server.shutdown(), 20)
    assert time.monotonic() - begin < 5
    client.close()
    server.server.servers.clear()

"""Requests made to harm, as raw bytes: bodies by route and field, and heads that are not HTTP.

`problem` says what is wrong with an answer.
"""

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BODIES: dict[str, dict[str, Any]] = {
    "/v1/suggest": {"query": "paris", "context": ["rome"], "n": 3, "session_id": "s1",
                    "specificity": 0.5, "diversity": 0.1, "known": "prefer", "results": 0,
                    "model": None},
    "/v1/suggest/batch": {"requests": [{"query": "paris"}]},
    "/v1/score": {"candidates": ["paris"], "context": ["rome"], "session_id": "s2", "model": None},
    "/v1/complete": {"prefix": "pa", "context": ["rome"], "n": 3, "session_id": "s3"},
    "/v1/explain": {"context": ["rome", "paris"], "session_id": "s4"},
    "/v1/feedback": {"action": "clicked", "query_id": "l1", "client_id": "c1", "query": "paris",
                     "suggestion": "rome", "position": 1},
    "/admin/block": {"text": "badword"},
    "/admin/reload": {},
}  # fmt: skip
"""A valid body of each route."""

VALUES = (
    "null", "true", "NaN", "Infinity", "-Infinity", "-0.0", "1e999", "-1e999", "1e-999",
    "9" * 400, "-" + "9" * 400, "9" * 5000, "0.1e1", '""', '" "', '"\\u0000"', '"\\ud800"',
    '"\\udc00\\ud800"', '"\\u202e"', '"' + "x" * 513 + '"', '"' + "\U0001f600" * 512 + '"',
    '"' + "\u0301" * 512 + '"', '"\u0130\ufb03\u1e9e"', '"' + "\ufdfa" * 400 + '"',
    '"<script>alert(1)</script>"', '"../../etc/passwd"', '"%n%s{0}{x}"', '"a\\nb"',
    "[]", "{}", "[null]", "[[]]", '[["x"]]', '{"a": 1}', "[" + '"x",' * 5000 + '"x"]',
    '["' + '","'.join("a b c d e f" for _ in range(100)) + '"]', "[" * 400 + "]" * 400,
    "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000, "'x'", "01", "+1", ".5",
    "undefined", "",
)  # fmt: skip
"""JSON texts in the place of a field's value; some are none."""


@dataclass(frozen=True)
class Attack:
    """Bytes to send, in pieces; between two of them there is a pause."""

    name: str
    pieces: tuple[bytes, ...]
    pause: float = 0.0
    closes: bool = False
    """Whether the client goes away without reading."""


def attacks(headers: dict[str, str], quick: bool) -> Iterator[Attack]:
    """All attacks; the quick form takes every seventh value of a field."""
    number = 0
    for route, body in BODIES.items():
        for field in [*body, "unknown"]:
            for value in VALUES:
                number += 1
                if not quick or number % 7 == 0:
                    rest = {key: content for key, content in body.items() if key != field}
                    yield _posted(f"{route} {field}={value[:30]}", route, _with(rest, field, value),
                                  headers)  # fmt: skip
        for name, text in _whole_bodies(body).items():
            yield _posted(f"{route} body {name}", route, text, headers)
    yield from _heads(headers)


def _with(rest: dict[str, Any], field: str, value: str) -> bytes:
    before = "".join(f"{json.dumps(key)}: {json.dumps(content)}, " for key, content in rest.items())
    return f'{{{before}"{field}": {value}}}'.encode("utf-8", "surrogatepass")


def _whole_bodies(body: dict[str, Any]) -> dict[str, bytes]:
    text = json.dumps(body)
    twice = "{" + ", ".join([text[1:-1]] * 500) + "}" if body else "{}"
    return {
        "empty": b"",
        "cut": text.encode()[:-1],
        "utf-16": text.encode("utf-16"),
        "latin-1": '{"query": "é"}'.encode("latin-1"),
        "keys twice": twice.encode()[:60_000],
        "keys of all kinds": json.dumps({f"k{n}": n for n in range(5000)}).encode(),
        "null": b"null",
        "number": b"1",
        "bom": b"\xef\xbb\xbf" + text.encode(),
        "zeros": bytes(1000),
        "large": b'{"query": "' + b"x" * 3_000_000 + b'"}',
    }


def _posted(name: str, route: str, body: bytes, headers: dict[str, str]) -> Attack:
    sent_headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    return Attack(name, (_head("POST", route, sent_headers) + body,))


def _head(method: str, target: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close"]
    lines += [f"{key}: {value}" for key, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def _heads(headers: dict[str, str]) -> Iterator[Attack]:
    """Heads, targets, methods and ways of sending."""
    body = b'{"query": "paris"}'
    length = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    post = _head("POST", "/v1/suggest", {**length, **headers})
    for target in ("/v1/sessions/" + "x" * 5000, "/v1/sessions/%00", "/v1/sessions/..%2f..", "//",
                   "/v1/sessions/a%0d%0aX:%20y", "/v1/suggest?" + "a=b&" * 2000, "/%ff%fe", "*",
                   "http://other/v1/models", "/static/../../secret", "/admin/why?query=%ed%a0%80",
                   "/admin/why?query=" + "x" * 3000, "/admin/why", "/v1/models;x",
                   "/admin/why?query=a&query=b&context=" + "c&context=" * 300):  # fmt: skip
        for method in ("GET", "DELETE", "HEAD", "OPTIONS", "PUT", "TRACE", "BREW"):
            yield Attack(f"{method} {target[:30]}", (_head(method, target, headers),))
    for name, extra in {
        "many headers": {f"x-{n}": "y" for n in range(2000)},
        "long header": {"x-long": "y" * 200_000},
        "odd type": {"Content-Type": "text/plain; charset=utf-99"},
        "gzip": {"Content-Encoding": "gzip"},
        "length below 0": {"Content-Length": "-1"},
        "huge length": {"Content-Length": "9" * 40},
        "two framings": {"Transfer-Encoding": "chunked"},
        "expect": {"Expect": "100-continue"},
        "odd key": {"X-API-Key": "\u00ff" * 100},
        "empty key": {"X-API-Key": ""},
        "origin": {"Origin": "null", "Access-Control-Request-Method": "POST"},
        "forwarded": {"X-Forwarded-For": "1.2.3.4, " * 500, "Forwarded": "for=x"},
        "request id": {"X-Request-ID": "x" * 5000},
        "traceparent": {"traceparent": "00-" + "z" * 60},
        "range": {"Range": "bytes=0-,-1,5-1"},
    }.items():
        yield Attack(name, (_head("POST", "/v1/suggest", {**length, **headers, **extra}) + body,))
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    for target in ("/v1/suggest", "/v1/sessions/s1", "/", "/admin/why?query=secret"):
        yield Attack(f"WebSocket {target}", (_head("GET", target, {**upgrade, **headers}),))
    yield Attack("h2c", (_head("GET", "/", {"Upgrade": "h2c", "HTTP2-Settings": "AAAA"}),))
    yield Attack("HTTP/2", (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),))
    yield Attack("TLS", (bytes.fromhex("16030100c8010000c40303") + bytes(200),))
    yield Attack("no HTTP", (b"\0\xff" * 5000 + b"\r\n\r\n",))
    yield Attack("bare line ends", (b"GET /healthz HTTP/1.0\n\n",))
    yield Attack("HTTP/9", (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",))
    yield Attack("folded header", (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",))
    yield Attack("smuggling", (post.replace(b"Content-Length", b"Content-Length : 5\r\nX") + body,))
    yield Attack("bad chunks", (_chunked(headers) + b"zz\r\nxx\r\n0\r\n\r\n",))
    yield Attack("huge chunk", (_chunked(headers) + b"ffffffffffffffff\r\n{}",), closes=True)
    yield Attack("one byte at a time", tuple(bytes([byte]) for byte in post[:200]), 0.001, True)
    yield Attack("body never comes", (post,), closes=True)
    yield Attack("half a body", (post + body[:5],), closes=True)
    yield Attack("gone at once", (post + body,), closes=True)
    yield Attack("pipelined", (post.replace(b"close", b"keep-alive") + body,) * 50, closes=True)


def _chunked(headers: dict[str, str]) -> bytes:
    framing = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    return _head("POST", "/v1/suggest", {**framing, **headers})


def problem(port: int, attack: Attack, seconds: float = 60.0) -> str:
    """What is wrong with the answer, in a few words; empty if nothing is."""
    start = time.monotonic()
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
            for piece in attack.pieces:
                client.sendall(piece)
                time.sleep(attack.pause)
            while not attack.closes and (read := client.recv(65536)):
                answer += read
    except TimeoutError:
        return "no answer"
    except OSError:
        pass  # closed on a client that continues to send
    if time.monotonic() - start > seconds:
        return "slow"
    return "" if not answer else _wrong(answer)


def _wrong(answer: bytes) -> str:
    """Whether an answer is something else than a success or one problem document."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if not status or not status[0].isdigit():
        return f"no status: {answer[:60]!r}"
    code = int(status[0])
    if code >= 500 and code not in (501, 503):  # 501: this model cannot do that
        return f"{code}"
    if code == 503 and b"retry-after" not in head.lower():
        return "503 without Retry-After"
    if b"Traceback" in body or b'File "' in body:
        return "a traceback"
    if body.startswith(b"{") and b"chunked" not in head.lower():
        try:
            json.loads(body, parse_constant=_refused)
        except ValueError as error:
            return f"not JSON: {error}"
    return ""


def _refused(constant: str) -> None:
    raise ValueError(constant)

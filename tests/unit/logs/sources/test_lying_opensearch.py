"""A server that says it is OpenSearch and is not: one error, no wait without end."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError, LogError
from nextquery.logs.sources import fetch_indices

HIT = {"_id": "a", "_index": "ubi", "sort": [1], "_source": {"user_query": "red"}}


def answer(hits: Any, total: Any = 1, **others: Any) -> dict[str, Any]:
    return {"_scroll_id": "s", "hits": {"total": {"value": total}, "hits": hits}, **others}


LIES: dict[str, Any] = {
    "no JSON": b"<html>",
    "a list": [],
    "null": None,
    "a number": 5,
    "nothing": {},
    "no scroll": {"hits": {"total": {"value": 1}, "hits": [HIT]}},
    "hits are a text": answer("aaaa"),
    "hits are an object": answer({"a": 1}),
    "hits are numbers": answer([1, 2]),
    "no total": {"_scroll_id": "s", "hits": {"hits": [HIT]}},
    "total is a text": answer([HIT], "many"),
    "total is nothing": answer([HIT], None),
    "no id": answer([{"sort": [1]}]),
    "no sort": answer([{"_id": "a"}]),
    "sort is empty": answer([{"_id": "a", "sort": []}]),
    "sort is a text": answer([{"_id": "a", "sort": ["soon"]}]),
    "sort is endless": answer([{"_id": "a", "sort": [1e999]}]),
    "shards are a text": answer([HIT], _shards="all"),
    "the same page for ever": answer([HIT] * 5000),
    "deep": b"[" * 100_000,
}


@contextmanager
def lying(body: Any) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_one_error(tmp_path: Path, lie: str) -> None:
    with lying(LIES[lie]) as address, pytest.raises(LogError) as raised:
        fetch_indices(address, ["ubi"], tmp_path, lambda stage, share: None)
    assert str(raised.value).isprintable()
    assert address in str(raised.value)


@pytest.mark.parametrize("note", ["", "null", "[]", '{"ids": 5}', '{"ids": [], "x": 1}', "{"])
def test_a_damaged_note_is_named(tmp_path: Path, note: str) -> None:
    (tmp_path / "ubi.json").write_text(note)
    with pytest.raises(InputError, match=r"ubi\.json: cannot be read"):
        fetch_indices("http://127.0.0.1:1", ["ubi"], tmp_path, lambda stage, share: None)

"""An OpenSearch of a few documents: search with scroll, next page, clear.

A stub, written after the documented API; no OpenSearch was asked. It refuses what it does not know.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NO_TIME = 2**63 - 1
Document = dict[str, Any]


@dataclass
class Stub:
    """What the server holds, and what it does wrong."""

    documents: dict[str, list[tuple[str, Document]]]
    page: int = 3
    """The largest page that it gives."""
    fails_after: int = 10**9
    """Pages until the connection breaks off, once."""
    failed_shards: int = 0
    password: str = ""
    pages: int = 0
    open: dict[str, list[Document]] = field(default_factory=dict)
    address: str = ""

    def search(self, index: str, body: Document) -> Document:
        """The first page of a scroll."""
        hits: list[Document] = [
            {"_index": index, "_id": name, "_source": source, "sort": [_sort_key(source)]}
            for name, source in self.documents[index]
            if _matches(body["query"], source)
        ]
        ((name, order),) = body["sort"][0].items()
        assert (name, order["order"], order["missing"]) == ("timestamp", "asc", "_last")
        hits.sort(key=lambda hit: hit["sort"][0])
        key = f"scroll-{len(self.open)}"
        self.open[key] = hits
        return self.next_page(key, len(hits))

    def next_page(self, key: str, total: int) -> Document:
        """Some more hits; they can be had only once."""
        hits, self.open[key] = self.open[key][: self.page], self.open[key][self.page :]
        return {
            "_scroll_id": key,
            "took": 1,
            "timed_out": False,
            "_shards": {
                "total": 2,
                "successful": 2 - self.failed_shards,
                "failed": self.failed_shards,
            },
            "hits": {"total": {"value": total, "relation": "eq"}, "hits": hits},
        }


def _sort_key(source: Document) -> int:
    if "timestamp" not in source:
        return NO_TIME
    return round(datetime.fromisoformat(source["timestamp"]).timestamp() * 1000)


def _matches(query: Document, source: Document) -> bool:
    ((kind, inner),) = query.items()
    if kind == "match_all":
        return True
    if kind == "range":
        assert inner["timestamp"]["format"] == "epoch_millis"
        return "timestamp" in source and _sort_key(source) >= inner["timestamp"]["gte"]
    if kind == "exists":
        return inner["field"] in source
    assert kind == "bool"
    if "must_not" in inner:
        return not _matches(inner["must_not"], source)
    assert inner["minimum_should_match"] == 1
    return any(_matches(item, source) for item in inner["should"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Search, or the next page."""
        body = self._body()
        if not self._may():
            return self._answer(401, {"error": "Unauthorized", "status": 401})
        stub, address = self.stub, urlsplit(self.path)
        stub.pages += 1
        if stub.pages > stub.fails_after:
            stub.fails_after = 10**9
            self.close_connection = True
            self.connection.close()
            return None
        if address.path == "/_search/scroll":
            return self._answer(200, stub.next_page(body["scroll_id"], 0))
        _, index, action = address.path.split("/")
        assert action == "_search"
        assert parse_qs(address.query)["scroll"] == ["5m"]
        if index not in stub.documents:
            reason = f"no such index [{index}]"
            error = {"type": "index_not_found_exception", "reason": reason, "index": index}
            return self._answer(404, {"error": error, "status": 404})
        return self._answer(200, stub.search(index, body))

    def do_DELETE(self) -> None:
        """End a scroll."""
        for key in self._body()["scroll_id"]:
            self.stub.open[key] = []
        self._answer(200, {"succeeded": True, "num_freed": 1})

    def _body(self) -> Document:
        result: Document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        return result

    def _may(self) -> bool:
        wanted = base64.b64encode(f"reader:{self.stub.password}".encode()).decode()
        return not self.stub.password or self.headers.get("authorization") == f"Basic {wanted}"

    def _answer(self, status: int, content: Document) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=UTF-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(stub: Stub) -> Iterator[Stub]:
    """The stub on a port of its own."""
    handler = type("Handler", (_Handler,), {"stub": stub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        stub.address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()

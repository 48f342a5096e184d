"""HTTP as uvicorn reads it, with a bound on the head of a request.

The parser itself takes headers of any size; 150 MiB of them stalled everybody for seconds.
"""

import json
import uuid
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 32 * 1024


class BoundedHeadProtocol(HttpToolsProtocol):
    """Refuses a request whose request line and headers are too long, and closes the connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reading_head = True
        self._refused = False
        self._head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Count what arrives before the head is complete."""
        if self._refused:
            return
        if self._reading_head:
            self._head_bytes += len(data)
            if self._head_bytes - len(data) > MOST_HEAD_BYTES:
                self._refuse()
                return
        super().data_received(data)
        if self._reading_head and self._head_bytes > MOST_HEAD_BYTES and not self._refused:
            self._refuse()

    def on_message_begin(self) -> None:
        """A new head begins."""
        self._reading_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is complete; one that came in a single piece is measured now."""
        self._reading_head = False
        length = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if length > MOST_HEAD_BYTES:
            self._refuse()
            return
        super().on_headers_complete()

    def _refuse(self) -> None:
        self._refused = True
        problem = {
            "title": "The headers are too long",
            "status": 431,
            "detail": f"The request line and headers exceed {MOST_HEAD_BYTES} bytes.",
            "request_id": uuid.uuid4().hex[:16],
        }
        message = json.dumps(problem)
        answer = (
            "HTTP/1.1 431 Request Header Fields Too Large\r\n"
            "content-type: application/problem+json\r\n"
            f"content-length: {len(message)}\r\n"
            f"connection: close\r\n\r\n{message}"
        )
        self.transport.write(answer.encode("ascii"))
        self.transport.close()

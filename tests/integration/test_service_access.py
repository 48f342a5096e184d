"""Who gets how much of a service that asks for keys, over HTTP."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from nextquery.service.keys import new_key

RICH, POOR = new_key("rich"), new_key("poor")
MARKER = "zyzzyvamarker"


@pytest.fixture(scope="module")
def service(start_service: Any, served_models: Any) -> Any:
    return start_service(
        served_models["adjacency"], "--rate", "2", "--workers", "1",
        NEXTQUERY_KEYS=f"{RICH.line},{POOR.line}",
    )  # fmt: skip


def post(service: Any, path: str, body: Any, key: str) -> httpx.Response:
    return service.post(path, body, **{"X-API-Key": key})  # type: ignore[no-any-return]


def test_a_batch_counts_by_its_size_for_its_key_alone(service: Any) -> None:
    body = {"query": "paris", "context": [f"rome in days {n}" for n in range(100)], "n": 50}
    refused = post(service, "/v1/suggest/batch", {"requests": [body] * 64}, RICH.key)
    assert refused.status_code == 422
    assert "at most 6.0 at once" in refused.json()["detail"], "two seconds and a debt of one"
    time.sleep(0.6)
    some = {"requests": [{"query": f"paris {n}"} for n in range(5)]}
    assert post(service, "/v1/suggest/batch", some, RICH.key).status_code == 200
    refused = post(service, "/v1/suggest", {"query": "paris"}, RICH.key)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert post(service, "/v1/suggest", {"query": "paris"}, POOR.key).status_code == 200


def test_a_batch_of_one_visitor_leaves_the_rate_of_other_visitors(
    start_service: Any, served_models: Any
) -> None:
    site = new_key("site")
    service = start_service(served_models["adjacency"], "--rate", "20", NEXTQUERY_KEYS=site.line)

    def lists(count: int, session: str) -> int:
        requests = [{"query": f"paris {n}", "session_id": session} for n in range(count)]
        return post(service, "/v1/suggest/batch", {"requests": requests}, site.key).status_code

    assert lists(64, "greedy") == 422
    assert lists(25, "greedy") == 200
    assert lists(25, "greedy") == 429
    body = {"query": "paris"}
    statuses = [
        post(service, "/v1/suggest", {**body, "session_id": f"v{n}"}, site.key).status_code
        for n in range(8)
    ]
    assert statuses == [200] * 8


def test_wrong_keys_and_invalid_bodies_are_counted(service: Any) -> None:
    assert service.post("/admin/reload", None).status_code == 404, "no admin key, no admin route"
    assert post(service, "/v1/suggest", {}, "wrong").status_code == 401

    def statuses(body: Any, **headers: str) -> set[int]:
        """Of many requests at once: they come faster than the rate, however slow the machine."""
        with ThreadPoolExecutor(16) as clients:
            answers = clients.map(lambda _: service.post("/v1/suggest", body, **headers), range(64))
            return {answer.status_code for answer in answers}

    forwarded = {"X-API-Key": "wrong", "X-Forwarded-For": "1.2.3.4"}
    assert 429 in statuses({}, **forwarded), "nobody chooses another address for himself"
    assert statuses({"n": -1}, **{"X-API-Key": POOR.key}) == {422, 429}


def test_an_upgrade_to_a_websocket_leaves_no_trace_of_what_was_asked(service: Any) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    head = (
        f"GET /v1/sessions/{MARKER}?q={MARKER} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n"
        "upgrade: websocket\r\nsec-websocket-version: 13\r\n"
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 4")
    last = service.get("/nowhere").headers["x-request-id"]
    service.wait_until(lambda: any(last in line for line in service.log))
    assert MARKER not in "".join(service.log)

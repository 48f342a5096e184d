"""Hostile requests to a real service, and requests while its models are reloaded."""

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from .hostile_requests import attacks, problem

KEY = "a-key-for-this-test-only"
KEYS = {
    name: f"test:{hashlib.sha256(KEY.encode()).hexdigest()}"
    for name in ("NEXTQUERY_KEYS", "NEXTQUERY_ADMIN_KEYS")
}


@pytest.mark.timeout(600)
def test_a_hostile_request_is_answered_with_a_success_or_one_problem(
    start_service: Any, served_models: dict[str, Path], tmp_path: Path
) -> None:
    blocklist = tmp_path / "blocked.txt"
    blocklist.write_text("badword\n", encoding="utf-8")
    service = start_service(
        served_models["adjacency"],
        *("--feedback", tmp_path / "feedback", "--blocklist", blocklist),
        **KEYS,
    )
    port = int(service.url.rsplit(":", 1)[1])
    sent = list(attacks({"X-API-Key": KEY, "X-Admin-Key": KEY}, quick=True))
    assert len(sent) > 400
    problems = [f"{attack.name}: {wrong}" for attack in sent if (wrong := problem(port, attack))]
    assert problems == []
    assert not [line for line in service.log if "Traceback" in line]
    assert service.is_ready()
    broken = [attack for attack in sent if not read_plainly(attack.pieces[0])]
    assert len(broken) > 100, "control: a program that trusts its input fails"


def read_plainly(request: bytes) -> bool:
    try:
        head, _, body = request.decode().partition("\r\n\r\n")
        method, _, _ = head.splitlines()[0].split()
        return method == "GET" or bool(json.loads(body)["query"].encode())
    except Exception:  # any, as a 500 would be
        return False


def test_no_request_is_refused_during_a_reload_and_a_stop_refuses_some(
    start_service: Any, served_models: dict[str, Path]
) -> None:
    patient = ("--budget-ms", "60000", "--queue-size", "512")
    service = start_service(served_models["hred"], *patient, **KEYS)
    done = Event()

    def keep_asking(number: int) -> list[int]:
        statuses: list[int] = []
        while not done.is_set():
            body = {"query": f"paris {number} {len(statuses)}"}
            statuses.append(service.post("/v1/suggest", body, **{"X-API-Key": KEY}).status_code)
            time.sleep(0.02)  # leaves the cores to the reload
        return statuses

    with ThreadPoolExecutor(2) as clients:
        asking = [clients.submit(keep_asking, number) for number in range(2)]
        try:
            for _ in range(2):
                reloaded = service.post("/admin/reload", None, **{"X-Admin-Key": KEY})
                assert reloaded.status_code == 200
        finally:
            done.set()
    statuses = [status for client in asking for status in client.result()]
    assert len(statuses) > 2
    assert set(statuses) == {200}
    service.stop()
    with pytest.raises(httpx.TransportError):
        service.post("/v1/suggest", {"query": "paris"}, **{"X-API-Key": KEY})

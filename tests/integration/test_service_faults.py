"""What may break around a running service: its model, workers, folders and files."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from nextquery.artifacts import write_manifest
from nextquery.service.keys import new_key

ADMIN = new_key("operator")
ADMIN_KEY = {"X-Admin-Key": ADMIN.key}


def suggest(service: Any, query: str = "red shoes") -> httpx.Response:
    return service.post("/v1/suggest", {"query": query})  # type: ignore[no-any-return]


def children(service: Any, text: bytes) -> list[int]:
    """The processes that a service started whose command holds `what`."""
    lists = Path(f"/proc/{service.process.pid}/task").glob("*/children")
    pids = [int(pid) for file in lists for pid in file.read_text().split()]
    return [pid for pid in pids if text in Path(f"/proc/{pid}/cmdline").read_bytes()]


def replace_file(folder: Path, name: str, content: bytes) -> None:
    """Other content under a manifest that fits it."""
    beside = folder / f"{name}.new"
    beside.write_bytes(content)
    beside.replace(folder / name)
    manifest = json.loads((folder / "manifest.json").read_text())
    write_manifest(folder, manifest["kind"], manifest)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, served_models: dict[str, Path]) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    shutil.copytree(served_models["adjacency"], folder / "model")
    (folder / "blocklist").write_text("forbidden\n")
    (folder / "tmp").mkdir()
    return folder


@pytest.fixture(scope="module")
def service(start_service: Any, home: Path) -> Any:
    return start_service(
        home / "model",
        *("--feedback", home / "feedback", "--blocklist", home / "blocklist"),
        *("--budget-ms", "60000"),
        NEXTQUERY_ADMIN_KEYS=ADMIN.line,
        TMPDIR=str(home / "tmp"),
    )


def test_a_folder_whose_content_cannot_be_opened_is_refused(service: Any, home: Path) -> None:
    good = (home / "model" / "query_counts.npy").read_bytes()
    replace_file(home / "model", "query_counts.npy", b"no numbers at all")
    refused = service.post("/admin/reload", None, **ADMIN_KEY)
    assert refused.status_code == 409
    assert refused.json()["detail"].startswith(f"{home / 'model' / 'query_counts.npy'}: ")
    assert suggest(service).json()["suggestions"]
    replace_file(home / "model", "query_counts.npy", good)
    assert service.post("/admin/reload", None, **ADMIN_KEY).status_code == 200


def test_the_kill_switch_works_though_its_folder_was_cleaned_away(service: Any, home: Path) -> None:
    def switch(on: bool) -> int:
        answer = service.request("PUT", "/admin/kill-switch", json={"on": on}, headers=ADMIN_KEY)
        return int(answer.status_code)

    for folder in (home / "tmp").glob("nextquery-*"):
        shutil.rmtree(folder)
    assert switch(True) == 200
    for folder in (home / "tmp").glob("nextquery-*"):
        shutil.rmtree(folder)
    time.sleep(1.0)  # four looks at the files
    assert suggest(service).json()["suggestions"] == []
    assert switch(False) == 200
    assert suggest(service).json()["suggestions"]


def test_feedback_is_written_though_its_folder_was_deleted(service: Any, home: Path) -> None:
    shutil.rmtree(home / "feedback")
    event = {"action": "dismissed", "query": "x", "client_id": "c", "query_id": "q"}
    assert service.post("/v1/feedback", event).status_code == 204
    assert list((home / "feedback").glob("events-*.ndjson"))
    shutil.rmtree(home / "feedback")
    (home / "feedback").write_text("")
    refused = service.post("/v1/feedback", event)
    assert refused.status_code == 503
    assert refused.headers["content-type"] == "application/problem+json"


def test_a_text_is_blocked_by_one_request(service: Any, home: Path) -> None:
    def texts() -> list[str]:
        return [item["text"] for item in suggest(service).json()["suggestions"]]

    before = (home / "blocklist").read_text()
    assert "red boots" in texts()
    asked = {"query": "Red Boots", "context": ["red shoes"]}

    def diagnosis() -> Any:
        answer = service.request("GET", "/admin/why", params=asked, headers=ADMIN_KEY)
        return answer.json()["adjacency"]

    before_it = diagnosis()
    assert before_it["can_be_suggested"]
    assert before_it["rank"] == 1
    blocked = service.post("/admin/block", {"text": "Red Boots"}, **ADMIN_KEY)
    assert blocked.json() == {"text": "red boots"}
    service.wait_until(lambda: "red boots" not in texts())
    assert diagnosis()["reason"] == "refused by the guard: blocklist"
    assert service.get("/admin/why?query=x").status_code == 401
    assert service.post("/admin/block", {"text": "?"}, **ADMIN_KEY).status_code == 422
    assert service.post("/admin/block", {"text": "x"}).status_code == 401
    (home / "blocklist").write_text(before)
    service.wait_until(lambda: "red boots" in texts())


@pytest.fixture
def neural(start_service: Any, served_models: dict[str, Path]) -> Iterator[Any]:
    service = start_service(served_models["hred"], "--budget-ms", "60000", "--batch-seconds", "4")
    yield service
    service.stop()


def test_a_stopped_model_is_noticed_ended_and_replaced(neural: Any) -> None:
    [model] = children(neural, b"model_process")
    with ThreadPoolExecutor(1) as clients:
        os.kill(model, signal.SIGSTOP)
        asked = clients.submit(suggest, neural)
        neural.wait_until(lambda: not neural.is_ready())
        answer = asked.result()
    # Refused if it was in the model's hands, answered by the new one if it still waited.
    assert answer.status_code in (200, 503)
    neural.wait_until(neural.is_ready)
    assert children(neural, b"model_process") != [model]
    assert suggest(neural).json()["suggestions"]
    assert 'nextquery_model_restarts_total{model="hred"} 1.0' in neural.get("/metrics").text
    [model] = children(neural, b"model_process")
    os.kill(model, signal.SIGSTOP)
    neural.process.send_signal(signal.SIGTERM)
    assert neural.process.wait(900) == 0, "the stopped model is not waited for"


def test_a_stopped_model_makes_only_services_that_need_it_unready(
    start_service: Any, served_models: dict[str, Path], tmp_path: Path
) -> None:
    """The same stopped model: in the shadow, and as one arm of a split."""
    hred = f"hred={served_models['hred']}"
    adjacency, feedback = served_models["adjacency"], ("--feedback", tmp_path / "feedback")
    common = "--batch-seconds", "60", "--cache-size", "0", *feedback
    silent = "ready, but no answer from: hred"

    def stop_model(service: Any) -> None:
        os.kill(children(service, b"model_process")[0], signal.SIGSTOP)

    def end(service: Any) -> None:
        os.kill(children(service, b"model_process")[0], signal.SIGKILL)
        assert service.stop() == 0

    def status(service: Any) -> tuple[int, str]:
        answer = service.get("/readyz")
        return answer.status_code, answer.json()["status"]

    shadow = start_service(adjacency, "--shadow", hred, *common)
    stop_model(shadow)
    shadow.wait_until(lambda: status(shadow) == (200, silent))
    assert suggest(shadow).json()["suggestions"]
    end(shadow)

    split = "--compare", hred, "--split", "adjacency:1,hred:1"
    alone = start_service(adjacency, *split, *common)
    stop_model(alone)
    alone.wait_until(lambda: status(alone) == (503, "no answer from: hred"))
    end(alone)

    helped = start_service(adjacency, *split, "--fallback", adjacency, *common)
    stop_model(helped)
    helped.wait_until(lambda: status(helped) == (200, silent))
    answers = [
        helped.post("/v1/suggest", {"query": "red shoes", "session_id": f"visitor-{number}"})
        for number in range(12)
    ]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["fallback"] for answer in answers} == {False, True}
    assert all(answer.json()["suggestions"] for answer in answers)
    end(helped)


@pytest.mark.slow
def test_workers_are_replaced_without_a_refused_request_even_if_that_fails_at_first(
    start_service: Any, served_models: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(served_models["adjacency"], tmp_path / "model")
    service = start_service(
        tmp_path / "model", "--workers", "2", "--sessions", "none", "--budget-ms", "60000"
    )

    def logged(message: str) -> int:
        return sum(f'"{message}"' in line for line in service.log)

    def asked_until(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 900
        while not condition():
            assert suggest(service).status_code == 200
            assert time.monotonic() < end

    service.wait_until(lambda: logged("models loaded") == 2)
    (tmp_path / "model").rename(tmp_path / "away")
    os.kill(children(service, b"spawn_main")[0], signal.SIGKILL)
    asked_until(lambda: logged("worker cannot serve") >= 1)
    (tmp_path / "away").rename(tmp_path / "model")
    asked_until(lambda: logged("models loaded") == 3)
    asked_until(lambda: len(children(service, b"spawn_main")) == 2)
    assert service.stop() == 0

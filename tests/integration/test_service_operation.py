"""What an operator fears: lost Redis, overload, clients that leave, stops, bad folders."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from nextquery.service.monitoring import DIRECTORY_VARIABLE


def suggest(service: Any, query: str, **more: Any) -> list[str]:
    answer = service.post("/v1/suggest", {"query": query, **more})
    assert answer.status_code == 200, answer.text
    return [item["text"] for item in answer.json()["suggestions"]]


def metric(service: Any, name: str) -> float:
    lines = service.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@pytest.mark.slow
def test_workers_share_sessions_in_redis_and_survive_its_death(
    start_service: Any, served_models: dict[str, Path], redis_server: Any
) -> None:
    service = start_service(
        served_models["hred"], "--workers", "2", "--sessions", redis_server.url,
        "--budget-ms", "20000",
    )  # fmt: skip
    service.wait_until(lambda: sum("models loaded" in line for line in service.log) == 2)
    # Every call is a new connection, which either worker may take.
    expected = suggest(service, "rome", context=["paris", "paris hotels"])
    for attempt in range(8):
        session = f"visitor-{attempt}"
        suggest(service, "paris", session_id=session)
        suggest(service, "paris hotels", session_id=session)
        assert suggest(service, "rome", session_id=session) == expected

    redis_server.kill()
    known = suggest(service, "rome", session_id="visitor-0", context=["paris", "paris hotels"])
    assert known == expected, "the request's own context is used"
    assert suggest(service, "rome", session_id="visitor-0") == suggest(service, "rome")
    deleted = service.request("DELETE", "/v1/sessions/visitor-0")
    assert deleted.status_code == 503
    # Either worker may answer; what the other one counted follows.
    service.wait_until(lambda: metric(service, "nextquery_sessions_unavailable_total") >= 2)

    redis_server.start()

    attempts = count()

    def remembers() -> bool:
        session = f"later-{next(attempts)}"
        suggest(service, "paris", session_id=session)
        suggest(service, "paris hotels", session_id=session)
        return suggest(service, "rome", session_id=session) == expected

    service.wait_until(remembers)
    assert service.stop() == 0


def workers_of(service: Any) -> list[int]:
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children")
    return [
        int(pid)
        for pid in children.read_text().split()
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def metrics_folder(service: Any) -> Path:
    environment = Path(f"/proc/{workers_of(service)[0]}/environ").read_bytes().split(b"\0")
    [path] = [item for item in environment if item.startswith(f"{DIRECTORY_VARIABLE}=".encode())]
    return Path(path.decode().partition("=")[2])


@pytest.mark.slow
def test_a_deleted_session_is_gone_from_all_workers_and_the_feedback(
    start_service: Any, served_models: dict[str, Path], redis_server: Any, tmp_path: Path
) -> None:
    """In memory 30 of 30 were incomplete, and 30 of 30 could be read after 204."""
    folder = tmp_path / "feedback"
    service = start_service(
        served_models["adjacency"], "--workers", "2", "--sessions", redis_server.url,
        "--feedback", str(folder), "--budget-ms", "20000",
    )  # fmt: skip
    service.wait_until(lambda: sum("models loaded" in line for line in service.log) == 2)
    sessions = [f"visitor-{number}" for number in range(30)]
    for query in ("paris", "paris hotels", "rome"):
        for session in sessions:  # every call is a new connection, which either worker may take
            suggest(service, query, session_id=session)
    lines = [
        json.loads(line) for path in folder.iterdir() for line in path.read_bytes().splitlines()
    ]
    contexts = [line["event_attributes"]["context"] for line in lines]
    assert contexts.count(["paris", "paris hotels"]) == 30

    async def delete_all() -> list[int]:
        async with httpx.AsyncClient(base_url=service.url, timeout=900) as client:
            calls = [client.delete(f"/v1/sessions/{session}") for session in sessions]
            calls += [client.delete(f"/v1/sessions/unknown-{n}") for n in range(5)]
            return [answer.status_code for answer in await asyncio.gather(*calls)]

    assert set(asyncio.run(delete_all())) == {204}
    assert not [path for path in folder.iterdir() if b"visitor" in path.read_bytes()]
    fresh = suggest(service, "never typed")
    for session in sessions:
        assert suggest(service, "never typed", session_id=session) == fresh
    lines = [
        json.loads(line) for path in folder.iterdir() for line in path.read_bytes().splitlines()
    ]
    later = [line["event_attributes"]["context"] for line in lines if line.get("client_id")]
    assert later == [[]] * 30
    assert service.stop() == 0


@pytest.mark.slow
def test_a_dead_worker_is_replaced_and_metrics_cover_all(
    start_service: Any, served_models: dict[str, Path]
) -> None:
    service = start_service(served_models["adjacency"], "--workers", "2", "--sessions", "none")
    service.wait_until(lambda: sum("models loaded" in line for line in service.log) == 2)
    before = sum("models loaded" in line for line in service.log)
    pids = workers_of(service)
    assert len(pids) == 2
    os.kill(pids[0], signal.SIGKILL)
    service.wait_until(lambda: sum("models loaded" in line for line in service.log) > before)
    for number in range(20):
        suggest(service, f"red shoes {number}")
    requests = 'nextquery_requests_total{route="/v1/suggest",status="200"}'
    service.wait_until(lambda: metric(service, requests) == 20)
    folder = metrics_folder(service)
    shutil.rmtree(folder)
    assert metric(service, requests) <= 20, "the worker that answers has its own"
    service.wait_until(lambda: metric(service, requests) == 20)
    shutil.rmtree(folder)
    loaded = sum("models loaded" in line for line in service.log)
    os.kill(workers_of(service)[0], signal.SIGKILL)
    service.wait_until(lambda: sum("models loaded" in line for line in service.log) > loaded)
    assert len(workers_of(service)) == 2
    assert service.stop() == 0


def test_a_late_model_is_answered_for_by_the_fallback(
    start_service: Any, served_models: dict[str, Path]
) -> None:
    service = start_service(
        served_models["hred"], "--fallback", served_models["adjacency"], "--budget-ms", "1",
    )  # fmt: skip
    answers = [
        service.post("/v1/suggest", {"query": "red shoes", "context": [f"paris {number}"]}).json()
        for number in range(10)
    ]
    late = [answer for answer in answers if answer["fallback"]]
    assert late, "no answer of the model takes less than a millisecond"
    assert {answer["model"] for answer in late} == {"adjacency"}
    assert [item["text"] for item in late[0]["suggestions"]] == ["red boots", "running shoes"]
    assert metric(service, "nextquery_fallbacks_total") == len(late)


async def _flood(url: str, requests: int, at_once: int) -> list[httpx.Response]:
    limits = httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(limits=limits, timeout=900) as client:
        return await asyncio.gather(
            *[
                client.post(url + "/v1/suggest", json={"query": "paris", "context": [f"q {n}"]})
                for n in range(requests)
            ]
        )


async def _leave_early(url: str, clients: int) -> None:
    host, port = url.removeprefix("http://").split(":")
    for number in range(clients):
        _, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps({"query": "paris", "context": [f"left {number}"]}).encode()
        head = "POST /v1/suggest HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.transport.abort()


async def _keep_asking(url: str, first: asyncio.Event, lost: list[str]) -> int:
    """Ask without pause; a request without answer is lost, a refused connection is not."""
    answered = 0
    async with httpx.AsyncClient(timeout=900) as client:
        while True:
            body = {"query": "paris", "context": [f"q {answered}"]}
            try:
                answer = await client.post(url + "/v1/suggest", json=body)
            except httpx.ConnectError:
                return answered
            except httpx.TransportError as error:
                lost.append(repr(error))
                return answered
            if answer.status_code not in (200, 503):
                lost.append(str(answer.status_code))
            if answer.status_code == 200:
                answered += 1
                first.set()


async def _stop_under_load(service: Any) -> tuple[int, list[str]]:
    first = asyncio.Event()
    lost: list[str] = []
    clients = [asyncio.create_task(_keep_asking(service.url, first, lost)) for _ in range(8)]
    await first.wait()
    service.process.send_signal(signal.SIGTERM)
    return sum(await asyncio.gather(*clients)), lost


@pytest.mark.slow
def test_overload_leaving_clients_and_a_stop_under_load(
    start_service: Any, served_models: dict[str, Path]
) -> None:
    service = start_service(
        served_models["hred"], "--queue-size", "4", "--batch-size", "2", "--drain-seconds", "0.3"
    )
    answers = asyncio.run(_flood(service.url, 200, 64))
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) == {200, 503}, statuses
    refused = [answer for answer in answers if answer.status_code == 503]
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)

    asyncio.run(_leave_early(service.url, 200))
    service.wait_until(lambda: metric(service, "nextquery_requests_in_flight") == 1)
    assert metric(service, "nextquery_queue_length") == 0
    assert metric(service, "nextquery_requests_cancelled_total") > 0
    assert suggest(service, "rome"), "back to normal"

    answered, lost = asyncio.run(_stop_under_load(service))
    assert lost == []
    assert answered > 0
    assert service.process.wait(900) == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["{none}"], "no such folder"),
        (["{adjacency}", "--compare", "x"], "write NAME=MODEL"),
        (["{adjacency}", "--sessions", "mysql://x"], "--sessions mysql://x"),
        (["{adjacency}", "--blocklist", "{none}"], "cannot be read"),
    ],
)
def test_what_cannot_be_served_ends_with_one_line(
    arguments: list[str], complaint: str, served_models: dict[str, Path], tmp_path: Path
) -> None:
    folders = {"none": tmp_path / "none", **served_models}
    command = [argument.format_map(folders) for argument in arguments]
    ended = subprocess.run(
        [sys.executable, "-m", "nextquery", "serve", *command, "--port", "0"],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    errors = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert ended.returncode == 2, ended.stderr
    assert len(errors) == 1
    assert complaint in errors[0]


def test_the_example_configuration_starts_a_service(
    start_service: Any, served_models: dict[str, Path], tmp_path: Path
) -> None:
    """`deploy/service.toml` as it is, with this machine's model folders."""
    example = Path(__file__).parents[2] / "deploy" / "service.toml"
    text = example.read_text(encoding="utf-8")
    for kind in ("hred", "adjacency"):
        text = text.replace(f'"/models/{kind}"', f'"{served_models[kind]}"')
    assert "/models/hred" not in text
    config = tmp_path / "service.toml"
    config.write_text(text.replace("n = 5", "n = 2"), encoding="utf-8")
    # The fixture's own --port 0 and --drain-seconds 0 override the file.
    service = start_service("--config", config, "--specificity", "0.1", "--budget-ms", "20000")
    facts = service.get("/v1/models").json()["models"]
    assert [model["name"] for model in facts] == ["hred", "adjacency"]
    assert [model["specificity"] for model in facts] == [0.1, 0.1]
    assert len(suggest(service, "paris")) == 2
    assert len(suggest(service, "paris", n=3)) == 3
    assert service.stop() == 0


def test_every_key_of_the_example_is_valid(served_models: dict[str, Path], tmp_path: Path) -> None:
    """Also those that are commented out."""
    text = (Path(__file__).parents[2] / "deploy" / "service.toml").read_text(encoding="utf-8")
    config = tmp_path / "service.toml"
    config.write_text(re.sub(r"^# ([a-z_]+ = )", r"\1", text, flags=re.M), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "nextquery", "serve", "--config", str(config)],
        capture_output=True,
        text=True,
    )
    # All keys were read; the models are missing.
    assert done.returncode == 2
    assert ": no such folder" in done.stderr, done.stderr

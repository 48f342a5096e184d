"""The process that serves: threads, the first and second signal, and when it ends."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from nextquery.service.answering import build_service
from nextquery.service.run import Server, WorkerRole, _set_threads
from nextquery.service.settings import NamedModel, ServiceSettings


def settings_of(folder: Path, control: Path, **more: Any) -> ServiceSettings:
    return ServiceSettings((NamedModel("main", folder),), control, **more)


@pytest.fixture
def server(served_models: dict[str, Path], tmp_path: Path) -> Server:
    settings = settings_of(served_models["adjacency"], tmp_path, drain_seconds=0)
    service = build_service(settings)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nobody asks")

    return Server(uvicorn.Config(app), service, WorkerRole())


@pytest.mark.parametrize(
    ("more", "before", "threads"),
    [
        ({"workers": 256, "sessions": "none"}, None, "1"),  # a share of no core is one
        ({"workers": 1}, None, str(os.cpu_count())),
        ({"threads": 3}, "7", "3"),  # the operator's word is the last
        ({}, "7", "7"),
    ],
)
def test_the_threads_of_a_worker(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    more: dict[str, Any],
    before: str | None,
    threads: str,
) -> None:
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "x")  # put back afterwards, whatever is set here
        monkeypatch.delenv(name)
    if before is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", before)
    _set_threads(settings_of(tmp_path, tmp_path, **more))
    assert os.environ["OMP_NUM_THREADS"] == threads
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


def test_the_first_signal_drains_and_a_second_ctrl_c_ends_at_once(server: Server) -> None:
    server.handle_exit(signal.SIGTERM, None)
    assert server._service.draining
    assert not server.should_exit
    server.handle_exit(signal.SIGTERM, None)
    assert not server.force_exit
    server.handle_exit(signal.SIGINT, None)
    assert server.should_exit
    assert server.force_exit


def ticks_to_end(server: Server) -> bool:
    asyncio.run(server.on_tick(1))
    return server.should_exit


def test_it_ends_when_the_drain_is_over(server: Server) -> None:
    assert not ticks_to_end(server)
    server.handle_exit(signal.SIGTERM, None)  # of no seconds
    assert ticks_to_end(server)


def test_it_ends_when_its_model_cannot_be_loaded(server: Server) -> None:
    server._service.failure = RuntimeError("no model")
    assert ticks_to_end(server)


def test_it_ends_when_its_supervisor_is_gone(server: Server) -> None:
    server._parent = os.getppid()
    assert not ticks_to_end(server)
    server._parent = 2**22 + 7
    assert ticks_to_end(server)


def test_a_worker_that_loads_first_ends_when_it_cannot(tmp_path: Path) -> None:
    service = build_service(settings_of(tmp_path / "no-model", tmp_path))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nobody asks")

    server = Server(uvicorn.Config(app), service, WorkerRole(supervised=True, load_first=True))
    asyncio.run(server._load_models())
    assert server.should_exit

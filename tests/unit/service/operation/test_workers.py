"""The supervisor: what it does when workers end. Whole services run in tests/integration."""

import signal
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import ArtifactError
from nextquery.service.monitoring import DIRECTORY_VARIABLE
from nextquery.service.run import FIRST_PAUSE, LONGEST_PAUSE, REFUSED, Supervisor, Worker, listen
from nextquery.service.settings import NamedModel, ServiceSettings


class Ended:
    """A process that ended with a code."""

    def __init__(self, code: int) -> None:
        self.exitcode, self.pid = code, 2**22 + 7

    def is_alive(self) -> bool:
        return False


class Flag:
    def __init__(self, on: bool) -> None:
        self.is_set = lambda: on


@pytest.fixture(autouse=True)
def _shared_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))


def supervisor_with(tmp_path: Path, code: int, ready: bool) -> tuple[Supervisor, Worker]:
    settings = ServiceSettings(
        (NamedModel("main", tmp_path),), tmp_path, workers=2, sessions="none"
    )
    with listen("127.0.0.1", 0) as listener:
        supervisor = Supervisor(settings, listener)
    process: Any = Ended(code)
    event: Any = Flag(ready)
    worker = Worker(process, event)
    supervisor._workers = [worker]
    return supervisor, worker


def test_a_worker_that_served_is_replaced_after_the_first_pause(tmp_path: Path) -> None:
    supervisor, worker = supervisor_with(tmp_path, -signal.SIGKILL, ready=True)
    supervisor._reap(worker)
    assert (supervisor._workers, supervisor._pause) == ([], FIRST_PAUSE)
    assert supervisor._start_at is not None


def test_the_pause_grows_while_workers_end_before_they_serve(tmp_path: Path) -> None:
    supervisor, worker = supervisor_with(tmp_path, 1, ready=False)
    for _ in range(10):
        supervisor._workers = [worker]
        supervisor._reap(worker)
    assert supervisor._pause == LONGEST_PAUSE


def test_bad_models_at_the_start_end_the_service(tmp_path: Path) -> None:
    supervisor, worker = supervisor_with(tmp_path, REFUSED, ready=False)
    with pytest.raises(ArtifactError, match="a worker could not load its models"):
        supervisor._reap(worker)


def test_nothing_is_started_while_the_service_stops(tmp_path: Path) -> None:
    supervisor, worker = supervisor_with(tmp_path, 0, ready=True)
    supervisor._stop(signal.SIGTERM, None)
    supervisor._reap(worker)
    supervisor._replace()
    assert supervisor._workers == []

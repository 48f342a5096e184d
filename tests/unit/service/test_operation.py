"""Running the service: settings, sockets, logs, metrics, workers."""

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from nextquery.errors import ArtifactError, InputError
from nextquery.feedback.assignment import Share
from nextquery.service import monitoring
from nextquery.service.answering import build_service
from nextquery.service.monitoring import DIRECTORY_VARIABLE, JsonFormatter, Metrics, add_ended
from nextquery.service.run import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    REFUSED,
    Server,
    Supervisor,
    Worker,
    _set_threads,
    address,
    listen,
)
from nextquery.service.settings import NamedModel, ServiceSettings

A_C = (Share("a", 1), Share("c", 1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workers": 2}, r"`workers` 2: .*redis://HOST:PORT/DB.*'none'"),
        ({"workers": 16}, "`workers` 16"),
        *(
            ({"sessions": store}, r"`sessions` .*write 'memory', 'none' or redis://")
            for store in ("", "Memory", "mysql://x", "redis:", "memory ")
        ),
        ({"user_days": 1, "sessions": "none"}, "`user_days`"),
        ({"feedback_days": 0}, "`feedback_days`"),
        ({"feedback_days": 36_501}, "`feedback_days`"),
        ({"interleave": ("a",)}, "two different"),
        ({"interleave": ("a", "a")}, "two different"),
        ({"interleave": ("a", "c")}, "`interleave` c: is not served; there are: a, b"),
        ({"split": (Share("a", 1),)}, "at least two"),
        ({"split": A_C}, "`split` c"),
        ({"shadow": "c"}, "`shadow` c"),
        ({"interleave": ("a", "b"), "split": A_C}, "choose one"),
        ({"shadow": "b", "feedback": None}, "needs `feedback`"),
        ({"models": (NamedModel("b", Path()),) * 2}, "named the same: b, b"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    models = (NamedModel("a", tmp_path), NamedModel("b", tmp_path))
    with pytest.raises(InputError, match=message):
        ServiceSettings(**{"models": models, "control": tmp_path, "feedback": tmp_path, **wrong})


@pytest.mark.parametrize("store", ["redis://127.0.0.1:1/0", "rediss://x", "unix:///x", "none"])
def test_workers_share_sessions_outside_of_memory(settings: ServiceSettings, store: str) -> None:
    assert replace(settings, workers=16, sessions=store).sessions == store
    assert replace(settings, workers=1, sessions="memory").sessions == "memory"


NUMBER_TYPES = (int, float, int | None, float | None)
NUMBERS = [item.name for item in fields(ServiceSettings) if item.type in NUMBER_TYPES]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 1 << 70])
def test_every_number_has_bounds(settings: ServiceSettings, name: str, value: float) -> None:
    wrong: Any = {"feedback": settings.control, name: value}
    with pytest.raises(InputError, match=rf"`{name}` \S+: must be at"):
        replace(settings, **wrong)


def test_port_0_takes_a_free_one_and_the_address_names_it() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        assert address("127.0.0.1", listener) == f"http://127.0.0.1:{port}"
        assert address("::1", listener) == f"http://[::1]:{port}"


def test_a_taken_port_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}: "):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "\udcff", "a/../..", "\u202e", "x" * 300, "a..b"])
def test_a_host_that_is_not_this_one_is_named(host: str) -> None:
    with pytest.raises(InputError, match=f"cannot listen on {re.escape(host)}:0: "):
        listen(host, 0)


def test_a_line_is_json_with_its_fields() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "request", None, None)
    record.fields = {"request_id": "ab", "status": 200}
    entry = json.loads(JsonFormatter().format(record))
    assert (entry["message"], entry["request_id"], entry["status"]) == ("request", "ab", 200)
    assert entry["time"].endswith("Z")


def test_the_source_line_of_an_error_is_logged_and_not_its_message() -> None:
    try:
        raise ValueError("my secret query")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", None, sys.exc_info())
    line = JsonFormatter().format(record)
    entry = json.loads(line)
    assert entry["error"] == "ValueError"
    assert "test_operation.py" in entry["places"][-1]
    assert "secret" not in line


REQUESTS = 'nextquery_requests_total{route="/v1/suggest",status="200"}'


@pytest.fixture
def metrics_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "metrics"))
    return tmp_path / "metrics"


def value(metrics: Metrics, sample: str) -> float:
    lines = metrics.render().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(sample))


WorkerMaker = Callable[[int, int], Metrics]


@pytest.fixture
def worker(metrics_folder: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerMaker:
    """Makes the metrics of a process of a number, which has answered N requests."""

    def make(pid: int, requests: int) -> Metrics:
        monkeypatch.setattr(os, "getpid", lambda: pid)
        metrics = Metrics()
        metrics.requests.labels("/v1/suggest", "200").inc(requests)
        for _ in range(requests):
            metrics.latency.labels("/v1/suggest").observe(0.003)
        metrics.queue.labels("main").set(requests)
        metrics.share(at_once=True)
        return metrics

    return make


def test_every_worker_answers_for_all(worker: WorkerMaker) -> None:
    both = worker(11, 3), worker(12, 4)
    for metrics in both:
        assert value(metrics, REQUESTS) == 7
        assert value(metrics, 'nextquery_queue_length{model="main"}') == 7
        assert value(metrics, "nextquery_request_seconds_count") == 7
        assert value(metrics, 'nextquery_request_seconds_bucket{le="0.002"') == 0
        assert value(metrics, 'nextquery_request_seconds_bucket{le="0.005"') == 7


def test_a_worker_that_ended_keeps_its_counts_and_loses_its_gauges(
    worker: WorkerMaker, metrics_folder: Path
) -> None:
    alive = worker(1, 5)
    for pid in (11, 12, 11):  # numbers of processes are used again
        worker(pid, 3)
        add_ended(pid)
    assert value(alive, REQUESTS) == 5 + 3 * 3
    assert value(alive, 'nextquery_queue_length{model="main"}') == 5
    assert len(list(metrics_folder.iterdir())) == 2, "one of those that ended, one of the other"
    add_ended(99)  # ended before it had counted anything


@pytest.mark.parametrize("remains", ["nothing", "a file", "a folder that cannot be written to"])
def test_the_folder_may_be_taken_away(
    worker: WorkerMaker, metrics_folder: Path, remains: str
) -> None:
    one, other = worker(11, 3), worker(12, 4)
    shutil.rmtree(metrics_folder)
    if remains == "a file":
        metrics_folder.write_text("")
    if remains == "a folder that cannot be written to":
        for metrics in (one, other):  # permissions do not stop a test that runs as root
            (metrics_folder / metrics._file).with_suffix(".partial").mkdir(parents=True)
    assert value(one, REQUESTS) == 3, "its own"
    add_ended(13)
    for metrics in (one, other, Metrics()):
        for _ in range(2):
            metrics.share(at_once=True)
        metrics.requests.labels("/v1/suggest", "200").inc()
    if remains == "a file":
        metrics_folder.unlink()
    if remains == "a folder that cannot be written to":
        shutil.rmtree(metrics_folder)
    for metrics in (one, other):
        metrics.share(at_once=True)
    assert value(one, REQUESTS) == value(other, REQUESTS) == 3 + 4 + 2


def test_a_damaged_copy_counts_nothing(worker: WorkerMaker, metrics_folder: Path) -> None:
    one = worker(11, 3)
    worker(12, 4)
    [copy] = metrics_folder.glob("worker-12-*")
    copy.write_bytes(copy.read_bytes()[:100])
    assert value(one, REQUESTS) == 3


@pytest.mark.usefixtures("metrics_folder")
def test_copies_are_written_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    monkeypatch.setattr(monitoring, "_write", lambda path, content: written.append(path))
    metrics = Metrics()
    for _ in range(5):
        metrics.share()
    assert len(written) == 1


def settings_of(folder: Path, control: Path, **more: Any) -> ServiceSettings:
    return ServiceSettings((NamedModel("main", folder),), control, **more)


async def nobody_asks(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError


@pytest.fixture
def server(served_models: dict[str, Path], tmp_path: Path) -> Server:
    settings = settings_of(served_models["adjacency"], tmp_path, drain_seconds=0)
    return Server(uvicorn.Config(nobody_asks), build_service(settings))


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
    server = Server(uvicorn.Config(nobody_asks), service, supervised=True, load_first=True)
    asyncio.run(server._load_models())
    assert server.should_exit


@pytest.fixture(autouse=True)
def _shared_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))


def supervisor_with(tmp_path: Path, code: int, ready: bool) -> tuple[Supervisor, Worker]:
    settings = settings_of(tmp_path, tmp_path, workers=2, sessions="none")
    with listen("127.0.0.1", 0) as listener:
        supervisor = Supervisor(settings, listener)
    ended: Any = SimpleNamespace(exitcode=code, pid=2**22 + 7, is_alive=lambda: False)
    event: Any = SimpleNamespace(is_set=lambda: ready)
    worker = Worker(ended, event)
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

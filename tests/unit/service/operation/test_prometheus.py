"""What an operator watches."""

import os
import shutil
from pathlib import Path

import pytest

from nextquery.service import monitoring
from nextquery.service.monitoring import DIRECTORY_VARIABLE, Metrics, add_ended

REQUESTS = 'nextquery_requests_total{route="/v1/suggest",status="200"}'


def test_counts_are_rendered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    metrics = Metrics()
    metrics.requests.labels("/v1/suggest", "200").inc()
    metrics.queue.labels("main").set(3)
    text = metrics.render().decode()
    assert 'nextquery_requests_total{route="/v1/suggest",status="200"} 1.0' in text
    assert 'nextquery_queue_length{model="main"} 3.0' in text


def test_two_services_in_one_process_count_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    one, other = Metrics(), Metrics()
    one.cancelled.inc()
    assert b"nextquery_requests_cancelled_total 1.0" in one.render()
    assert b"nextquery_requests_cancelled_total 0.0" in other.render()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "metrics"))
    return tmp_path / "metrics"


def value(metrics: Metrics, sample: str) -> float:
    lines = metrics.render().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(sample))


def worker(pid: int, requests: int, monkeypatch: pytest.MonkeyPatch) -> Metrics:
    """The metrics of a process of that number, which has answered so many requests."""
    monkeypatch.setattr(os, "getpid", lambda: pid)
    metrics = Metrics()
    metrics.requests.labels("/v1/suggest", "200").inc(requests)
    for _ in range(requests):
        metrics.latency.labels("/v1/suggest").observe(0.003)
    metrics.queue.labels("main").set(requests)
    metrics.share(at_once=True)
    return metrics


def test_every_worker_answers_for_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = worker(11, 3, monkeypatch), worker(12, 4, monkeypatch)
    for metrics in both:
        assert value(metrics, REQUESTS) == 7
        assert value(metrics, 'nextquery_queue_length{model="main"}') == 7
        assert value(metrics, "nextquery_request_seconds_count") == 7
        assert value(metrics, 'nextquery_request_seconds_bucket{le="0.002"') == 0
        assert value(metrics, 'nextquery_request_seconds_bucket{le="0.005"') == 7


def test_a_worker_that_ended_keeps_its_counts_and_loses_its_gauges(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = worker(1, 5, monkeypatch)
    for pid in (11, 12, 11):  # numbers of processes are used again
        worker(pid, 3, monkeypatch)
        add_ended(pid)
    assert value(alive, REQUESTS) == 5 + 3 * 3
    assert value(alive, 'nextquery_queue_length{model="main"}') == 5
    assert len(list(folder.iterdir())) == 2, "one of those that ended, one of the other"
    add_ended(99)  # ended before it had counted anything


@pytest.mark.parametrize("remains", ["nothing", "a file", "a folder that cannot be written to"])
def test_the_folder_may_be_taken_away(
    folder: Path, remains: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = worker(11, 3, monkeypatch), worker(12, 4, monkeypatch)
    shutil.rmtree(folder)
    if remains == "a file":
        folder.write_text("")
    if remains == "a folder that cannot be written to":
        for metrics in (one, other):  # permissions do not stop a test that runs as root
            (folder / metrics._file).with_suffix(".partial").mkdir(parents=True)
    assert value(one, REQUESTS) == 3, "what it knows itself"
    add_ended(13)
    for metrics in (one, other, Metrics()):
        for _ in range(2):
            metrics.share(at_once=True)
        metrics.requests.labels("/v1/suggest", "200").inc()
    if remains == "a file":
        folder.unlink()
    elif folder.exists() and remains != "nothing":
        shutil.rmtree(folder)
    for metrics in (one, other):
        metrics.share(at_once=True)
    assert value(one, REQUESTS) == value(other, REQUESTS) == 3 + 4 + 2


def test_a_damaged_copy_counts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = worker(11, 3, monkeypatch)
    worker(12, 4, monkeypatch)
    [copy] = folder.glob("worker-12-*")
    copy.write_bytes(copy.read_bytes()[:100])
    assert value(one, REQUESTS) == 3


def test_copies_are_written_once_a_second(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    monkeypatch.setattr(monitoring, "_write", lambda path, content: written.append(path))
    metrics = Metrics()
    for _ in range(5):
        metrics.share()
    assert len(written) == 1

"""What an operator watches."""

import pytest

from nextquery.service.operation.prometheus import DIRECTORY_VARIABLE, Metrics


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

"""Health, metrics, the page and the documentation, all from local files."""

import asyncio
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from nextquery.service.http.pages import readyz
from nextquery.service.service import build_service
from nextquery.service.settings import ServiceSettings

Open = Callable[..., TestClient]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/metrics", "text/plain"),
        ("/healthz", "application/json"),
        ("/openapi.json", "application/json"),
        ("/widget/box.js", "text/javascript"),
    ],
)
def test_it_is_there(open_client: Open, path: str, kind: str) -> None:
    answer = open_client().get(path)
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, kind)


def test_metrics_count_the_lists_that_were_asked_for(open_client: Open) -> None:
    client = open_client()
    client.post("/v1/suggest", json={"query": "red shoes"})
    assert 'nextquery_requests_total{route="/v1/suggest",status="200"} 1.0' in (
        client.get("/metrics").text
    )


def test_a_service_that_loads_or_stops_is_not_ready(settings: ServiceSettings) -> None:
    async def status() -> tuple[int, bytes]:
        answer = await readyz(service)
        return answer.status_code, bytes(answer.body)

    service = build_service(settings)
    assert asyncio.run(status()) == (503, b'{"status":"loading"}')
    service.stop_soon()
    assert asyncio.run(status()) == (503, b'{"status":"stopping"}')

"""Health, metrics, the page and the documentation, all from local files."""

import asyncio
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from nextquery.service.answering import build_service
from nextquery.service.keys import new_key
from nextquery.service.routes import readyz
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


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize(
    "path",
    ["/metrics/", "/healthz/", "/readyz/", "/docs/", "/openapi.json/", "/v1/models/", "/static",
     "/widget", "/static/swagger", "//healthz", "//evil.example/%2e%2e"],
)  # fmt: skip
def test_nothing_is_redirected_to_the_host_that_a_request_names(
    open_client: Open, monkeypatch: pytest.MonkeyPatch, path: str, keys: bool
) -> None:
    if keys:
        monkeypatch.setenv("NEXTQUERY_KEYS", new_key("shop").line)
    client = open_client()
    # As a full address: the client would take a path that begins with // for a host.
    url = f"http://testserver{path}"
    answer = client.get(url, headers={"Host": "evil.example"}, follow_redirects=False)
    assert answer.status_code in (401, 404)
    assert "evil" not in f"{answer.headers}{answer.text}"

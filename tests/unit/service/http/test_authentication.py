"""Who is let in, asked as a server asks."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nextquery.service.answering import build_service
from nextquery.service.app import AuthMiddleware
from nextquery.service.keys import new_key
from nextquery.service.settings import ServiceSettings

KEY, ADMIN = new_key("shop"), new_key("operator")


async def _open(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


class Visitor:
    """Sends requests to the middleware."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._middleware = AuthMiddleware(_open, build_service(settings))

    def status(
        self, path: str, headers: Mapping[str, str] | None = None, address: str = "9.9.9.9"
    ) -> int:
        raw = [(name.lower().encode(), text.encode()) for name, text in (headers or {}).items()]
        scope = {
            "type": "http", "method": "GET", "path": path, "headers": raw, "request_id": "1",
            "client": (address, 1),
        }  # fmt: skip
        statuses: list[int] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        asyncio.run(self._middleware(scope, receive, send))
        [status] = statuses
        return status


@pytest.fixture
def locked(settings: ServiceSettings, tmp_path: Path) -> ServiceSettings:
    (tmp_path / "keys").write_text(KEY.line)
    (tmp_path / "admin").write_text(ADMIN.line)
    keys, admin = tmp_path / "keys", tmp_path / "admin"
    return replace(settings, keys_file=keys, admin_keys_file=admin)


CLOSED = ("/v1/suggest", "/metrics", "/docs", "/openapi.json", "/static/swagger/swagger-ui.css")


def test_without_keys_everything_but_administration_is_open(settings: ServiceSettings) -> None:
    visitor = Visitor(settings)
    assert [visitor.status(path) for path in CLOSED] == [200] * 5
    assert visitor.status("/admin/reload") == 404


def test_with_keys_only_health_and_the_page_are_open(locked: ServiceSettings) -> None:
    visitor = Visitor(locked)
    key = {"X-API-Key": KEY.key}
    assert [visitor.status(path) for path in CLOSED] == [401] * 5
    assert [visitor.status(path, key) for path in CLOSED] == [200] * 5
    assert [visitor.status(path) for path in ("/", "/healthz", "/readyz", "/static/a.js")] == (
        [200] * 4
    )
    assert visitor.status("/admin/reload", key) == 401
    assert visitor.status("/admin/reload", {"X-Admin-Key": ADMIN.key}) == 200
    assert visitor.status("/v1/suggest", {"X-Admin-Key": ADMIN.key}) == 401


def test_what_the_operator_makes_public_is_open(locked: ServiceSettings) -> None:
    visitor = Visitor(replace(locked, public=frozenset({"metrics"})))
    assert visitor.status("/metrics") == 200
    assert visitor.status("/openapi.json") == 401


def test_wrong_keys_are_counted_by_address(locked: ServiceSettings) -> None:
    visitor = Visitor(replace(locked, rate_per_second=0.001))  # one request at once
    wrong = {"X-API-Key": "wrong"}
    assert visitor.status("/v1/suggest", wrong) == 401
    assert visitor.status("/v1/suggest", wrong) == 429
    assert visitor.status("/v1/suggest", {"X-API-Key": "another"}) == 429
    assert visitor.status("/v1/suggest", {"X-API-Key": KEY.key}) == 200, "a key has its own rate"
    assert visitor.status("/v1/suggest", {"X-API-Key": KEY.key}) == 429
    assert visitor.status("/v1/suggest", wrong, address="8.8.8.8") == 401


def test_visitors_behind_a_trusted_proxy_share_a_key(locked: ServiceSettings) -> None:
    """The address is the one that the proxy forwards; without a proxy it may be a site's server."""
    key = {"X-API-Key": KEY.key}

    def passed(visitor: Visitor, address: str, times: int) -> int:
        statuses = [visitor.status("/v1/suggest", key, address) for _ in range(times)]
        return statuses.count(200)

    visitor = Visitor(replace(locked, rate_per_second=0.01, trusted_proxies=("10.0.0.1",)))
    assert passed(visitor, "8.8.8.8", 1) == 1
    visitor = Visitor(replace(locked, rate_per_second=20, trusted_proxies=("10.0.0.1",)))
    assert passed(visitor, "9.9.9.9", 100) < 30, "half of the key's bucket of forty"
    assert passed(visitor, "8.8.8.8", 10) == 10
    direct = Visitor(replace(locked, rate_per_second=20))
    assert passed(direct, "9.9.9.9", 40) == 40

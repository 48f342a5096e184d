"""Keys, rate limits and administration."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from nextquery.errors import InputError
from nextquery.service.answering import build_service
from nextquery.service.app import AuthMiddleware, Gateway
from nextquery.service.keys import RateLimit, new_key, read_keys
from nextquery.service.settings import ServiceSettings

from .conftest import Open, wait_until

SHOP_KEY, OPERATOR_KEY = new_key("shop"), new_key("operator")


class Visitor:
    """Sends requests to routes that answer whoever passes the middleware."""

    def __init__(self, settings: ServiceSettings) -> None:
        service = build_service(settings)
        self._app = Gateway(AuthMiddleware(PlainTextResponse("open"), service), service)

    def status(
        self, path: str, headers: dict[str, str] | None = None, address: str = "9.9.9.9"
    ) -> int:
        client = TestClient(self._app, client=(address, 1))
        return client.get(path, headers=headers).status_code


@pytest.fixture
def locked(settings: ServiceSettings, tmp_path: Path) -> ServiceSettings:
    (tmp_path / "keys").write_text(SHOP_KEY.line)
    (tmp_path / "admin").write_text(OPERATOR_KEY.line)
    keys, admin = tmp_path / "keys", tmp_path / "admin"
    return replace(settings, keys_file=keys, admin_keys_file=admin)


CLOSED = ("/v1/suggest", "/metrics", "/docs", "/openapi.json", "/static/swagger/swagger-ui.css")


def test_without_keys_everything_but_administration_is_open(settings: ServiceSettings) -> None:
    visitor = Visitor(settings)
    assert [visitor.status(path) for path in CLOSED] == [200] * 5
    assert visitor.status("/admin/reload") == 404


def test_with_keys_only_health_and_the_page_are_open(locked: ServiceSettings) -> None:
    visitor = Visitor(locked)
    key = {"X-API-Key": SHOP_KEY.key}
    assert [visitor.status(path) for path in CLOSED] == [401] * 5
    assert [visitor.status(path, key) for path in CLOSED] == [200] * 5
    assert [visitor.status(path) for path in ("/", "/healthz", "/readyz", "/static/a.js")] == (
        [200] * 4
    )
    assert visitor.status("/admin/reload", key) == 401
    assert visitor.status("/admin/reload", {"X-Admin-Key": OPERATOR_KEY.key}) == 200
    assert visitor.status("/v1/suggest", {"X-Admin-Key": OPERATOR_KEY.key}) == 401


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
    assert visitor.status("/v1/suggest", {"X-API-Key": SHOP_KEY.key}) == 200, (
        "a key has its own rate"
    )
    assert visitor.status("/v1/suggest", {"X-API-Key": SHOP_KEY.key}) == 429
    assert visitor.status("/v1/suggest", wrong, address="8.8.8.8") == 401


def test_visitors_of_a_trusted_proxy_share_a_key(locked: ServiceSettings) -> None:
    """The address is the one that the proxy forwards; without a proxy it may be a site's server."""
    key = {"X-API-Key": SHOP_KEY.key}

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


def test_a_new_key_opens_what_its_line_says(tmp_path: Path) -> None:
    made = new_key("shop")
    file = tmp_path / "keys"
    file.write_text(f"# customers\n{made.line}  # since May\n\n")
    keys = read_keys(file, "NOT_SET")
    assert keys.name(made.key) == "shop"
    assert keys.name(made.key + "x") is None
    assert made.key not in made.line


def test_keys_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = new_key("a"), new_key("b")
    monkeypatch.setenv("SOME_KEYS", f"{first.line},{second.line}")
    keys = read_keys(None, "SOME_KEYS")
    assert (keys.name(first.key), keys.name(second.key)) == ("a", "b")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"shop:secret\n", "entry 1: write NAME:SHA256"),
        (b"# nothing\n", "has no key"),
        (b"\xff\xfe", "not UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_key_file_is_refused(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    if content is not None:
        (tmp_path / "keys").write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        read_keys(tmp_path / "keys", "NOT_SET")


def test_a_bucket_holds_two_seconds_and_refills() -> None:
    now = [100.0]
    limit = RateLimit(2.0, lambda: now[0])
    assert [limit.wait("a") for _ in range(4)] == [0, 0, 0, 0]
    assert limit.wait("a") == pytest.approx(0.5)
    assert limit.wait("b") == 0
    now[0] += 0.5
    assert limit.wait("a") == 0
    assert limit.wait("a") > 0


def test_a_batch_larger_than_the_bucket_waits_for_a_full_one() -> None:
    now = [0.0]
    limit = RateLimit(1.0, lambda: now[0])
    assert limit.wait("a", cost=3) == 0
    now[0] += 0.9
    assert limit.wait("a") > 0, "the batch left a debt"
    now[0] += 1.1
    assert limit.wait("a") == 0


@pytest.mark.parametrize("rate", [0.01, 1.0, 7.0, 1000.0])
@pytest.mark.parametrize("cost", [1.0, 3.0, 100.0, 1e9])
@pytest.mark.parametrize("visitor", ["", "v"])
def test_no_debt_is_longer_than_a_second(rate: float, cost: float, visitor: str) -> None:
    now = [0.0]
    limit = RateLimit(rate, lambda: now[0])
    for _ in range(20):
        limit.wait("a", cost, visitor=visitor)
        # A second for the debt, and the time in which one comes in.
        assert limit.wait("a", 0.0, visitor=visitor) <= 1.0001
        now[0] += 1 / rate


def test_one_visitor_leaves_the_others_of_its_key_half_of_the_rate() -> None:
    """One visitor asks for as much as it can get, ten others once a second."""
    now = [0.0]
    limit = RateLimit(20.0, lambda: now[0])
    taken, refused = 0.0, 0
    for tick in range(6000):  # a minute
        now[0] = tick / 100
        if tick % 10 == 0:
            refused += limit.wait("site", visitor=f"visitor {tick // 10 % 10}") > 0
        for cost in (limit.most("greedy"), 5.0, 1.0):
            taken += 0 if limit.wait("site", cost, visitor="greedy") else cost
    assert refused == 0
    assert 550 < taken < 640, "half of 1,200, and what a bucket holds"


def test_a_visitor_beyond_its_share_costs_its_key_nothing() -> None:
    limit = RateLimit(10.0, lambda: 0.0)
    for _ in range(1000):
        limit.wait("site", visitor="greedy")
    assert [limit.wait("site", visitor=f"v{n}") for n in range(10)] == [0] * 10
    assert limit.wait("site", visitor="late") > 0
    assert limit.wait("another", visitor="greedy") == 0, "a visitor of another key is another"


def test_rate_0_sets_no_limit() -> None:
    limit = RateLimit(0.0)
    assert all(limit.wait("a") == 0 for _ in range(1000))


def test_what_was_already_paid_counts() -> None:
    now = [0.0]
    limit = RateLimit(1.0, lambda: now[0])  # a bucket of two
    assert limit.wait("a") == 0
    assert limit.wait("a", 1.0, paid=1.0) == 0
    assert limit.wait("a", 2.0, paid=1.0) == 0, "the whole bucket"
    assert limit.wait("a") > 0
    now[0] += 2
    assert limit.wait("a") == 0
    assert limit.wait("a", 3.0, paid=1.0) == 0, "passes with a full bucket, and leaves a debt"
    now[0] += 1.5
    assert limit.wait("a") > 0
    now[0] += 0.5
    assert limit.wait("a") == 0


@pytest.mark.parametrize("value", ["", " , ", "#"])
def test_a_variable_without_any_key_does_not_open_the_service(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOME_KEYS", value)
    with pytest.raises(InputError, match="SOME_KEYS: is set but has no key"):
        read_keys(None, "SOME_KEYS")
    (tmp_path / "keys").write_text(new_key("shop").line)
    with pytest.raises(InputError, match="SOME_KEYS"):
        read_keys(tmp_path / "keys", "SOME_KEYS")


def test_a_key_file_that_everybody_may_write_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text(new_key("shop").line)
    file.chmod(0o644)
    read_keys(file, "NOT_SET")
    assert not caplog.records
    file.chmod(0o666)
    read_keys(file, "NOT_SET")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_sessions_of_two_keys_are_two_sessions(open_client: Open, tmp_path: Path) -> None:
    other_key = new_key("other")
    (tmp_path / "keys").write_text(f"{SHOP_KEY.line}\n{other_key.line}\n")
    client = open_client(keys_file=tmp_path / "keys")

    def ask(key: str, query: str) -> list[str]:
        body = {"query": query, "session_id": "same", "model": "adj"}
        answer = client.post("/v1/suggest", json=body, headers={"X-API-Key": key})
        return [item["text"] for item in answer.json()["suggestions"]]

    fresh = ask(other_key.key, "never typed")
    ask(SHOP_KEY.key, "red shoes")
    assert ask(other_key.key, "never typed") == fresh


ADMIN_HEADER = {"X-Admin-Key": OPERATOR_KEY.key}


@pytest.fixture
def client(open_client: Open, tmp_path: Path) -> TestClient:
    (tmp_path / "admin").write_text(OPERATOR_KEY.line)
    (tmp_path / "blocklist").write_text("forbidden\n")
    return open_client(admin_keys_file=tmp_path / "admin", blocklist=tmp_path / "blocklist")


def count(client: TestClient) -> int:
    return len(client.post("/v1/suggest", json={"query": "red shoes"}).json()["suggestions"])


def test_the_kill_switch_empties_every_list_and_back(client: TestClient) -> None:
    before = count(client)
    switched = client.put("/admin/kill-switch", json={"on": True}, headers=ADMIN_HEADER)
    assert switched.json() == {"on": True}
    assert (before > 0, count(client)) == (True, 0)
    client.put("/admin/kill-switch", json={"on": False}, headers=ADMIN_HEADER)
    assert count(client) == before


def test_lists_are_empty_though_the_kill_switch_cannot_be_written(
    client: TestClient, tmp_path: Path
) -> None:
    def switch(on: bool) -> tuple[int, str]:
        answer = client.put("/admin/kill-switch", json={"on": on}, headers=ADMIN_HEADER)
        return answer.status_code, answer.text

    (tmp_path / "kill-switch").mkdir()
    status, text = switch(on=True)
    assert (status, "Lists are empty in this process" in text) == (503, True)
    time.sleep(0.6)  # two looks at the files
    assert count(client) == 0
    status, text = switch(on=False)
    assert (status, "cannot be written" in text) == (409, True)
    assert count(client) == 0
    (tmp_path / "kill-switch").rmdir()
    assert switch(on=False)[0] == 200
    assert count(client) > 0


def test_a_reload_that_cannot_be_announced_to_other_workers_is_503(
    open_client: Open, tmp_path: Path
) -> None:
    (tmp_path / "admin").write_text(OPERATOR_KEY.line)
    several = open_client(admin_keys_file=tmp_path / "admin", workers=2, sessions="none")
    alone = open_client(admin_keys_file=tmp_path / "admin")
    (tmp_path / "reload").mkdir()
    assert several.post("/admin/reload", headers=ADMIN_HEADER).status_code == 503
    assert alone.post("/admin/reload", headers=ADMIN_HEADER).status_code == 200


def test_a_blocklist_that_cannot_be_written_is_409(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "blocklist").unlink()
    (tmp_path / "blocklist").mkdir()
    answer = client.post("/admin/block", json={"text": "red boots"}, headers=ADMIN_HEADER)
    assert (answer.status_code, "Is a directory" in answer.text) == (409, True)
    (tmp_path / "blocklist").rmdir()
    (tmp_path / "blocklist").write_bytes(b"\xff\xfe")
    answer = client.post("/admin/block", json={"text": "red boots"}, headers=ADMIN_HEADER)
    assert (answer.status_code, "not UTF-8" in answer.text) == (409, True)


def test_a_text_is_blocked_and_unblocked(client: TestClient, tmp_path: Path) -> None:
    def change(route: str, text: str) -> tuple[int, Any]:
        answer = client.post(f"/admin/{route}", json={"text": text}, headers=ADMIN_HEADER)
        return answer.status_code, answer.json().get("text") or answer.json()["detail"]

    def shown() -> list[str]:
        answer = client.post("/v1/suggest", json={"query": "red shoes", "n": 2})
        return [item["text"] for item in answer.json()["suggestions"]]

    assert shown() == ["red boots", "running shoes"]
    assert change("block", '="Boots"') == (200, '="boots"')
    assert change("block", '= "Red  BOOTS"') == (200, '="red boots"')
    assert '="red boots"' in (tmp_path / "blocklist").read_text().splitlines()
    wait_until(lambda: shown() == ["running shoes"])
    assert change("unblock", '="red boots"') == (200, '="red boots"')
    # "boots" is blocked as a whole query only
    wait_until(lambda: shown() == ["red boots", "running shoes"])
    assert change("unblock", "boots") == (404, "text: no entry of the blocklist is boots")
    assert change("unblock", '="boots"')[0] == 200
    status, detail = change("unblock", "forbidden")
    assert (status, "may not be empty" in detail) == (422, True)

"""The routes under `/admin`, asked in this process."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nextquery.service.keys import new_key

Open = Callable[..., TestClient]
ADMIN = new_key("operator")
KEY = {"X-Admin-Key": ADMIN.key}


@pytest.fixture
def client(open_client: Open, tmp_path: Path) -> TestClient:
    (tmp_path / "admin").write_text(ADMIN.line)
    (tmp_path / "blocklist").write_text("forbidden\n")
    return open_client(admin_keys_file=tmp_path / "admin", blocklist=tmp_path / "blocklist")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/admin/reload", None),
        ("PUT", "/admin/kill-switch", {"on": True}),
        ("POST", "/admin/block", {"text": "x"}),
        ("POST", "/admin/unblock", {"text": "x"}),
        ("GET", "/admin/why?query=x", None),
    ],
)
def test_nobody_without_the_key_comes_in(
    client: TestClient, method: str, path: str, body: Any
) -> None:
    assert client.request(method, path, json=body).status_code == 401


def test_without_admin_keys_there_is_no_administration(open_client: Open) -> None:
    assert open_client().post("/admin/reload", headers=KEY).status_code == 404


def test_a_reload_names_the_versions(client: TestClient) -> None:
    versions = client.post("/admin/reload", headers=KEY).json()
    assert set(versions) == {"adj", "pop"}


def test_the_kill_switch_empties_every_list_and_back(client: TestClient) -> None:
    def count() -> int:
        answer = client.post("/v1/suggest", json={"query": "red shoes"}).json()
        return len(answer["suggestions"])

    before = count()
    assert client.put("/admin/kill-switch", json={"on": True}, headers=KEY).json() == {"on": True}
    assert (before > 0, count()) == (True, 0)
    client.put("/admin/kill-switch", json={"on": False}, headers=KEY)
    assert count() == before


def test_lists_are_empty_though_the_kill_switch_cannot_be_written(
    client: TestClient, tmp_path: Path
) -> None:
    def switch(on: bool) -> tuple[int, str]:
        answer = client.put("/admin/kill-switch", json={"on": on}, headers=KEY)
        return answer.status_code, answer.text

    def count() -> int:
        answer = client.post("/v1/suggest", json={"query": "red shoes"}).json()
        return len(answer["suggestions"])

    (tmp_path / "kill-switch").mkdir()
    status, text = switch(on=True)
    assert (status, "Lists are empty in this process" in text) == (503, True)
    time.sleep(0.6)  # two looks at the files
    assert count() == 0
    status, text = switch(on=False)
    assert (status, "cannot be written" in text) == (409, True)
    assert count() == 0
    (tmp_path / "kill-switch").rmdir()
    assert switch(on=False)[0] == 200
    assert count() > 0


def test_a_reload_that_the_other_workers_cannot_be_told_of_says_so(
    open_client: Open, tmp_path: Path
) -> None:
    (tmp_path / "admin").write_text(ADMIN.line)
    several = open_client(admin_keys_file=tmp_path / "admin", workers=2, sessions="none")
    alone = open_client(admin_keys_file=tmp_path / "admin")
    (tmp_path / "reload").mkdir()
    assert several.post("/admin/reload", headers=KEY).status_code == 503
    assert alone.post("/admin/reload", headers=KEY).status_code == 200


def test_a_blocklist_that_cannot_be_written_is_409(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "blocklist").unlink()
    (tmp_path / "blocklist").mkdir()
    answer = client.post("/admin/block", json={"text": "red boots"}, headers=KEY)
    assert (answer.status_code, "Is a directory" in answer.text) == (409, True)
    (tmp_path / "blocklist").rmdir()
    (tmp_path / "blocklist").write_bytes(b"\xff\xfe")
    answer = client.post("/admin/block", json={"text": "red boots"}, headers=KEY)
    assert (answer.status_code, "not UTF-8" in answer.text) == (409, True)


def test_a_text_is_blocked_and_unblocked(client: TestClient, tmp_path: Path) -> None:
    def change(route: str, text: str) -> tuple[int, Any]:
        answer = client.post(f"/admin/{route}", json={"text": text}, headers=KEY)
        return answer.status_code, answer.json().get("text") or answer.json()["detail"]

    def wait_until_shown(*expected: str) -> None:
        end = time.monotonic() + 60
        while True:
            answer = client.post("/v1/suggest", json={"query": "red shoes", "n": 2})
            shown = tuple(item["text"] for item in answer.json()["suggestions"])
            if shown == expected:
                return
            assert time.monotonic() < end, shown
            time.sleep(0.05)

    wait_until_shown("red boots", "running shoes")
    assert change("block", '="Boots"') == (200, '="boots"')
    assert change("block", '= "Red  BOOTS"') == (200, '="red boots"')
    assert '="red boots"' in (tmp_path / "blocklist").read_text().splitlines()
    wait_until_shown("running shoes")
    assert change("unblock", '="red boots"') == (200, '="red boots"')
    wait_until_shown("red boots", "running shoes")  # "boots" is blocked as a whole query only
    assert change("unblock", "boots") == (404, "text: no entry of the blocklist is boots")
    assert change("unblock", '="boots"')[0] == 200
    status, detail = change("unblock", "forbidden")
    assert (status, "may not be empty" in detail) == (422, True)


def test_why_says_it_for_every_model(client: TestClient) -> None:
    asked = {"query": "red boots", "context": ["red shoes"]}
    found = client.get("/admin/why", params=asked, headers=KEY).json()
    assert set(found) == {"adj", "pop"}

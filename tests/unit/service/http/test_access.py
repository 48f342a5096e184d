"""Who calls: keys of callers and of administrators."""

from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

from nextquery.service.keys import new_key

Open = Callable[..., TestClient]
SHOP, OTHER = new_key("shop"), new_key("other")


def test_sessions_of_two_keys_are_two_sessions(open_client: Open, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{SHOP.line}\n{OTHER.line}\n")
    client = open_client(keys_file=tmp_path / "keys")

    def ask(key: str, query: str) -> list[str]:
        body = {"query": query, "session_id": "same", "model": "adj"}
        answer = client.post("/v1/suggest", json=body, headers={"X-API-Key": key})
        return [item["text"] for item in answer.json()["suggestions"]]

    fresh = ask(OTHER.key, "never typed")
    ask(SHOP.key, "red shoes")
    assert ask(OTHER.key, "never typed") == fresh


def test_a_wrong_key_is_refused_and_none_is_needed_without_keys(
    open_client: Open, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text(SHOP.line)
    guarded, open_to_all = open_client(keys_file=tmp_path / "keys"), open_client()
    assert guarded.get("/v1/models", headers={"X-API-Key": OTHER.key}).status_code == 401
    assert guarded.get("/v1/models", headers={"X-API-Key": SHOP.key}).status_code == 200
    assert open_to_all.get("/v1/models").status_code == 200

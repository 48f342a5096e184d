"""Hot routes answer as FastAPI does: the same bodies, statuses, headers and metrics."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from nextquery.service.served_models import ServedModel

Open = Callable[..., TestClient]
HOT, FASTAPI = "application/json", "application/vnd.search+json"  # both are JSON to FastAPI
IDENTIFIERS = {"query_id", "request_id"}
BODIES = [
    ("/v1/suggest", b'{"query": "red shoes", "n": 2, "session_id": "s1"}'),
    ("/v1/suggest", b'{"query": "red shoes", "n": 2.0, "diversity": 0, "known": null}'),
    ("/v1/suggest", '{"query": "sch\u00f6ne rote schuhe"}'.encode()),
    ("/v1/complete", b'{"prefix": "re", "context": ["red shoes"]}'),
    ("/v1/complete", b'{"prefix": "", "n": 3}'),
    ("/v1/suggest", b'{"query": "red shoes", "n": 0}'),
    ("/v1/suggest", b'{"query": "red shoes", "n": "2"}'),
    ("/v1/suggest", b'{"query": "red shoes", "other": 1}'),
    ("/v1/suggest", b'{"query": 5}'),
    ("/v1/suggest", b'{"query": "a"'),
    ("/v1/suggest", b"[]"),
    ("/v1/suggest", b""),
    ("/v1/suggest", b'"\xff"'),
    ("/v1/suggest", b'{"query": "a", "model": "none"}'),
    ("/v1/complete", b'{"prefix": 1}'),
]


def facts(answer: Any) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and body without identifiers."""
    headers = {
        k: v for k, v in answer.headers.items() if k not in ("x-request-id", "content-length")
    }
    return (
        answer.status_code,
        headers,
        {k: v for k, v in answer.json().items() if k not in IDENTIFIERS},
    )


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_hot_routes_and_fastapi_give_the_same_answer(
    open_client: Open, path: str, body: bytes
) -> None:
    client = open_client()
    hot, fastapi = (
        client.post(path, content=body, headers={"Content-Type": kind}) for kind in (HOT, FASTAPI)
    )
    assert facts(hot) == facts(fastapi)
    assert set(hot.json()) == set(fastapi.json())
    assert list(hot.json()) == list(fastapi.json()), "in the same order"


def test_a_valid_request_does_not_reach_fastapi(
    open_client: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_by_fastapi: list[str] = []
    call = FastAPI.__call__

    async def counted(self: Any, scope: Any, receive: Any, send: Any) -> None:
        seen_by_fastapi.append(scope.get("method", scope["type"]))
        await call(self, scope, receive, send)

    monkeypatch.setattr(FastAPI, "__call__", counted)
    client = open_client()
    kind = {"Content-Type": "application/json; charset=utf-8"}
    seen_by_fastapi.clear()
    assert client.post("/v1/suggest", content=b'{"query": "a"}', headers=kind).status_code == 200
    assert seen_by_fastapi == []
    assert client.post("/v1/suggest", content=b'{"query": 1}', headers=kind).status_code == 422
    assert client.get("/v1/suggest").status_code == 405
    assert seen_by_fastapi == ["POST", "GET"]
    counts = client.get("/metrics").text
    assert 'nextquery_requests_total{route="/v1/suggest",status="200"} 1.0' in counts


def test_hot_routes_check_keys(open_client: Open, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"shop:{hashlib.sha256(b'secret').hexdigest()}\n")
    client = open_client(keys_file=tmp_path / "keys")
    body = {"query": "red shoes"}
    assert client.post("/v1/suggest", json=body).status_code == 401
    key = {"X-API-Key": "secret"}
    assert client.post("/v1/suggest", json=body, headers=key).status_code == 200


def test_hot_routes_and_fastapi_report_an_unexpected_error_alike(
    open_client: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: ServedModel, questions: Any) -> Any:
        raise ZeroDivisionError("quotes what was typed")

    client = open_client()
    monkeypatch.setattr(ServedModel, "submit", broken)
    answers = []
    for kind in (HOT, FASTAPI):
        sent = TestClient(client.app, raise_server_exceptions=False)
        answers.append(
            sent.post("/v1/suggest", content=b'{"query": "a"}', headers={"Content-Type": kind})
        )
    assert facts(answers[0]) == facts(answers[1])
    assert answers[0].status_code == 500
    assert "typed" not in answers[0].text

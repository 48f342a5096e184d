"""The short way gives what FastAPI gives: the same bodies, statuses, headers and metrics."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nextquery.service.http import hot_routes
from nextquery.service.models.served_model import ServedModel

Open = Callable[..., TestClient]
SHORT, LONG = "application/json", "application/vnd.search+json"  # both are JSON to FastAPI
OWN = {"query_id", "took_ms", "request_id"}
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
    """What is the same whoever answers."""
    headers = {
        k: v for k, v in answer.headers.items() if k not in ("x-request-id", "content-length")
    }
    return answer.status_code, headers, {k: v for k, v in answer.json().items() if k not in OWN}


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_both_ways_answer_the_same(open_client: Open, path: str, body: bytes) -> None:
    client = open_client()
    short, long = (
        client.post(path, content=body, headers={"Content-Type": kind}) for kind in (SHORT, LONG)
    )
    assert facts(short) == facts(long)
    assert set(short.json()) == set(long.json())
    assert list(short.json()) == list(long.json()), "in the same order"


def test_a_valid_request_takes_the_short_way(
    open_client: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    answer = hot_routes.HotRoutes._answer

    async def counted(self: Any, *given: Any) -> None:
        taken.append("short")
        await answer(self, *given)

    monkeypatch.setattr(hot_routes.HotRoutes, "_answer", counted)
    client = open_client()
    kind = {"Content-Type": "application/json; charset=utf-8"}
    assert client.post("/v1/suggest", content=b'{"query": "a"}', headers=kind).status_code == 200
    assert client.post("/v1/suggest", content=b'{"query": 1}', headers=kind).status_code == 422
    assert client.get("/v1/suggest").status_code == 405
    assert taken == ["short"]
    counts = client.get("/metrics").text
    assert 'nextquery_requests_total{route="/v1/suggest",status="200"} 1.0' in counts


def test_keys_hold_on_the_short_way(open_client: Open, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"shop:{hashlib.sha256(b'secret').hexdigest()}\n")
    client = open_client(keys_file=tmp_path / "keys")
    body = {"query": "red shoes"}
    assert client.post("/v1/suggest", json=body).status_code == 401
    key = {"X-API-Key": "secret"}
    assert client.post("/v1/suggest", json=body, headers=key).status_code == 200


def test_an_error_that_nobody_expected_is_said_the_same(
    open_client: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: ServedModel, questions: Any) -> Any:
        raise ZeroDivisionError("quotes what was typed")

    client = open_client()
    monkeypatch.setattr(ServedModel, "submit", broken)
    answers = []
    for kind in (SHORT, LONG):
        sent = TestClient(client.app, raise_server_exceptions=False)
        answers.append(
            sent.post("/v1/suggest", content=b'{"query": "a"}', headers={"Content-Type": kind})
        )
    assert facts(answers[0]) == facts(answers[1])
    assert answers[0].status_code == 500
    assert "typed" not in answers[0].text

"""The study's pages and their limits."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.types import Message

from nextquery.study import app
from nextquery.study.app import MAX_BODY_BYTES, RequestLimits, create_study_app
from nextquery.study.pool import Judgement, JudgementStore, Topic, create_study

from .conftest import FixedList

GOOD = {"item": 0, "value": "useful"}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    models = {"HiddenA": FixedList("a", "b"), "HiddenB": FixedList("<img src=x onerror=alert(1)>")}
    create_study(tmp_path / "study", [Topic("q", "", ("before",))], models)  # type: ignore[arg-type]
    return tmp_path / "study"


@pytest.fixture
def token(study: Path) -> str:
    return JudgementStore(study).tokens(2)[1]


def _client(study: Path) -> TestClient:
    return TestClient(create_study_app(study), base_url="http://localhost")


def test_a_judgement_is_stored_and_survives_a_restart(study: Path, token: str) -> None:
    client = _client(study)
    assert client.get(f"/a/{token}").status_code == 200
    answer = client.post(f"/a/{token}/judgements", json={"item": 1, "value": "useful"})
    assert answer.json() == {"item": 1, "value": "useful"}
    assert JudgementStore(study).current() == [Judgement(1, 1, "useful")]
    again = _client(study)
    again.cookies.update(client.cookies)
    shown = again.get(f"/a/{token}/state").json()["topics"][0]["suggestions"]
    assert {s["item"]: s["value"] for s in shown}[1] == "useful"


def test_a_wrong_token_is_403(study: Path) -> None:
    client = _client(study)
    assert "not valid" in client.get("/a/wrong").text
    assert client.get("/a/wrong").status_code == 403
    assert client.get("/a/wrong/state").status_code == 403
    assert client.post("/a/wrong/judgements", json=GOOD).status_code == 403


def test_the_first_browser_that_judges_owns_the_link(study: Path, token: str) -> None:
    """A mail scanner that opens the link does not take it."""
    scanner, person, late = (_client(study) for _ in range(3))
    for client in (scanner, person):
        assert client.get(f"/a/{token}").status_code == 200
        assert client.get(f"/a/{token}/state").status_code == 200
    assert person.post(f"/a/{token}/judgements", json=GOOD).status_code == 200
    for client in (scanner, late):
        page = client.get(f"/a/{token}")
        assert page.status_code == 403
        assert "another browser" in page.text
        assert client.get(f"/a/{token}/state").status_code == 403
        assert client.post(f"/a/{token}/judgements", json=GOOD).status_code == 403
    assert JudgementStore(study).current() == [Judgement(1, 0, "useful")]


def test_the_cookie_comes_along_from_a_mail_program_and_from_no_foreign_form(
    study: Path, token: str
) -> None:
    cookie = _client(study).get(f"/a/{token}").headers["set-cookie"].lower()
    assert "samesite=lax" in cookie
    assert "httponly" in cookie
    assert "secure" not in cookie
    safe = TestClient(create_study_app(study), base_url="https://study.example")
    assert "secure" in safe.get(f"/a/{token}").headers["set-cookie"].lower()
    # What a form on another site sends comes without the cookie.
    answer = _client(study).post(f"/a/{token}/judgements", json=GOOD)
    assert answer.status_code == 403
    assert "cookies" in answer.json()["detail"]


def test_nothing_served_names_a_model(study: Path, token: str) -> None:
    client = _client(study)
    served = [client.get(f"/a/{token}"), client.get(f"/a/{token}/state")]
    served += [client.get(f"/static/study.{end}") for end in ("js", "css")]
    for answer in served:
        assert answer.status_code == 200
        assert "Hidden" not in answer.text
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert client.get("/key.json").status_code == 404
    assert client.get("/static/../../../key.json").status_code == 404


def _post(study: Path, token: str, body: str | bytes) -> Any:
    client = _client(study)
    client.get(f"/a/{token}")
    headers = {"Content-Type": "application/json"}
    return client.post(f"/a/{token}/judgements", content=body, headers=headers)


@pytest.mark.parametrize(
    "body",
    [
        '{"item": 99, "value": "useful"}',
        '{"item": 0, "value": "great"}',
        '{"item": 0}',
        "{}",
        "[]",
        "null",
        '{"item": NaN, "value": "useful"}',
        '{"item": Infinity, "value": NaN}',
        '{"item": -Infinity, "value": "useful"}',
        '{"item": 1e999, "value": "useful"}',
        '{"item": 0, "value": "\\ud800"}',
        '{"item": 0, "value": "useful", "\\udfff": 1}',
        '{"item": "\\ud800", "value": null}',
        '{"item": 0, "value": "use\\u0000ful"}',
        '{"item": true, "value": "useful"}',
        '{"item": "0", "value": "useful"}',
        f'{{"item": {"9" * 400}, "value": "useful"}}',
    ],
)
def test_bad_judgements_are_422_and_not_stored(study: Path, token: str, body: str) -> None:
    answer = _post(study, token, body)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)
    assert JudgementStore(study).current() == []


def test_other_bodies_than_json_are_refused_and_not_stored(study: Path, token: str) -> None:
    for body in (b"\xff\xfe", b"{", b"[" * 4000, b"x" * 5000):
        answer = _post(study, token, body)
        assert 400 <= answer.status_code < 500, body[:10]
        assert isinstance(answer.json()["detail"], str)
    assert JudgementStore(study).current() == []


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def _ask(parts: list[bytes], end: bool = True) -> tuple[int, bytes, dict[bytes, bytes]]:
    """Send a body in parts; without an end the client stays silent after the last one."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if end:
        messages[-1]["more_body"] = False
    sent: list[Message] = []

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        return await asyncio.Event().wait()

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Any = {"type": "http", "method": "POST", "path": "/", "headers": []}
    asyncio.run(RequestLimits(_echo)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])


def test_a_small_body_passes_whole_with_safe_headers() -> None:
    status, body, headers = _ask([b"a", b"b" * (MAX_BODY_BYTES - 1)])
    assert (status, body) == (200, b"a" + b"b" * (MAX_BODY_BYTES - 1))
    assert headers[b"referrer-policy"] == b"no-referrer"
    assert b"default-src 'self'" in headers[b"content-security-policy"]


def test_a_body_that_never_ends_is_refused_when_it_is_too_large() -> None:
    status, body, headers = _ask([b"x" * 1000] * 5, end=False)
    assert status == 413
    assert b"4096" in body
    assert headers[b"connection"] == b"close"


def test_a_body_that_does_not_come_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY_SECONDS", 0.01)
    assert _ask([b"x"], end=False)[0] == 408

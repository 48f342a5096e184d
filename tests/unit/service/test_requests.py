"""Requests before they reach a model: gateway, hot routes, schemas and texts."""

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError
from starlette.testclient import TestClient

from nextquery.normalise import normalise_query
from nextquery.service import app, schemas
from nextquery.service.answering import build_service
from nextquery.service.app import Gateway, build_api
from nextquery.service.schemas import (
    SuggestRequest,
    read_many,
    read_prefix,
    read_query,
    read_session,
    read_texts,
)
from nextquery.service.served_models import ServedModel
from nextquery.service.sessions import joined
from nextquery.service.settings import (
    MAX_BODY_BYTES,
    MAX_CONTEXT_QUERIES,
    MAX_QUERY_CHARACTERS,
    MAX_SESSION_BYTES,
    MAX_WORD_CHARACTERS,
    ServiceSettings,
    text_bytes,
)
from nextquery.suggesters.base import SuggestOptions

from .conftest import Open

SCOPE = {
    "type": "http", "method": "GET", "path": "/fails", "raw_path": b"/fails", "query_string": b"",
    "headers": [], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http",
    "http_version": "1.1", "root_path": "",
}  # fmt: skip


def sent(app: Any, *parts: bytes) -> list[dict[str, Any]]:
    """What an app sends for a request: without a body, or with these parts of an endless one."""
    messages: list[dict[str, Any]] = []
    remaining = iter(parts or (b"",))

    async def receive() -> dict[str, Any]:
        part = next(remaining, None)
        if part is None:
            await asyncio.sleep(30)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(app({**SCOPE}, receive, send))
    return messages


def test_an_unexpected_error_is_one_answer_and_a_problem(settings: ServiceSettings) -> None:
    service = build_service(settings)
    api = build_api(service)

    @api.get("/fails")
    async def fails() -> None:
        raise RuntimeError("a text that nobody may see")

    start, body = sent(Gateway(api, service))
    assert start["status"] == 500
    assert dict(start["headers"])[b"content-type"] == b"application/problem+json"
    problem = json.loads(body["body"])
    assert problem["request_id"].encode() == dict(start["headers"])[b"x-request-id"]
    assert "nobody" not in json.dumps(problem)


def test_an_error_outside_the_routes_is_one_answer_too(settings: ServiceSettings) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError

    start, body = sent(Gateway(broken, build_service(settings)))
    assert start["status"] == 500
    assert json.loads(body["body"])["status"] == 500


def test_a_connection_closes_where_a_body_was_not_read(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows on the connection is the rest of the body, not a request."""
    monkeypatch.setattr(app, "BODY_SECONDS", 0.05)
    service = build_service(settings)

    async def unused(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("not reached")

    def refused(*parts: bytes) -> tuple[int, bytes | None]:
        start, _ = sent(Gateway(unused, service), *parts)
        return start["status"], dict(start["headers"]).get(b"connection")

    assert refused(b"{") == (408, b"close")
    assert refused(b"x" * MAX_BODY_BYTES, b"x") == (413, b"close")


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
    client: TestClient, path: str, body: bytes
) -> None:
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


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": 1},
        {"query": "x", "n": 0},
        {"query": "x", "n": 51},
        {"query": "x", "n": 2.5},
        {"query": "x", "n": True},
        {"query": "x", "diversity": 1.1},
        {"query": "x", "specificity": -0.1},
        {"query": "x", "known": "maybe"},
        {"query": "x" * (MAX_QUERY_CHARACTERS + 1)},
        {"query": "x", "context": ["y"] * (MAX_CONTEXT_QUERIES + 1)},
        {"query": "x", "session_id": "a b"},
        {"query": "x", "surprise": 1},
    ],
)
def test_a_bad_request_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        schemas.SuggestRequest.model_validate(body)


def test_options_are_those_of_the_request_or_else_of_the_service(settings: ServiceSettings) -> None:
    service = replace(settings, n=7, specificity=0.1, known="free")
    body = {"query": "x", "n": 5.0, "diversity": 0.5, "specificity": 0.0, "known": "only"}
    asked = schemas.SuggestRequest.model_validate(body).options(service)
    assert asked == SuggestOptions(n=5, diversity=0.5, specificity=0.0, known="only")
    asked = schemas.SuggestRequest.model_validate({"query": "x"}).options(service)
    assert asked == SuggestOptions(n=7, diversity=0.0, specificity=0.1, known="free")


def test_feedback_is_parsed_by_its_action() -> None:
    reader: TypeAdapter[schemas.FeedbackRequest] = TypeAdapter(schemas.FeedbackRequest)
    same = {"query_id": "a", "client_id": "b", "query": "c"}
    clicked = reader.validate_python(
        {**same, "action": "clicked", "suggestion": "d", "position": 1}
    )
    assert isinstance(clicked, schemas.Clicked)
    with pytest.raises(ValidationError):
        reader.validate_python({**same, "action": "clicked"})
    with pytest.raises(ValidationError):
        reader.validate_python({**same, "action": "loved"})


EXPANDING = {
    "an Arabic phrase": "\ufdfa",
    "another": "\ufdfb",
    "ligatures": "\ufb03",
    "square words": "\u3316",
    "Hangul": "\uac01",
    "full width": "\uff21",
    "stacked marks": "a\u0344\u0390\u0301\u0316",
    "dotted capital I": "\u0130",
    "bold letters": "\U0001d400",
    "Chinese": "便宜的北京酒店",
    "Thai": "โรงแรมราคาถูก",
    "Japanese": "東京の安いホテル",
    "invisible": "\u200b",
    "words with digits": "a1",
    "one-letter words": "a ",
}


@pytest.mark.parametrize("text", EXPANDING.values(), ids=EXPANDING)
def test_no_session_is_longer_than_what_is_read(text: str) -> None:
    long = (text * MAX_QUERY_CHARACTERS)[:MAX_QUERY_CHARACTERS]
    session = read_session([f"{number} {long}"[:512] for number in range(MAX_CONTEXT_QUERIES)])
    assert sum(map(text_bytes, joined(session))) <= MAX_SESSION_BYTES
    assert sum(map(len, session)) <= MAX_SESSION_BYTES
    for query in (read_query(long), *session):
        assert len(query) < 2 * MAX_QUERY_CHARACTERS
        assert max(map(len, query.split()), default=0) <= MAX_WORD_CHARACTERS
        assert normalise_query(query) == query


@pytest.mark.parametrize("text", EXPANDING.values(), ids=EXPANDING)
def test_reading_the_longest_session_takes_milliseconds(text: str) -> None:
    long = (text * MAX_QUERY_CHARACTERS)[:MAX_QUERY_CHARACTERS]
    read_query(long)  # loads the parsers
    session = [f"{number} {long}"[:512] for number in range(MAX_CONTEXT_QUERIES)]
    begin = time.process_time()
    read_session(session)
    assert time.process_time() - begin < 0.05


def test_an_ordinary_session_is_kept_as_a_whole() -> None:
    session = [f"Cheap Hotels in Paris, no. {number}" for number in range(MAX_CONTEXT_QUERIES)]
    assert read_session(session) == [normalise_query(query) for query in session]
    assert read_session(["!!!", "Paris"]) == ["paris"]


def test_the_last_queries_are_those_that_are_read() -> None:
    long = "x " * 250
    assert read_session(["first", *[long] * 10, "last"])[-1] == "last"
    assert "first" not in read_session(["first", *[long] * 10, "last"])


def test_a_request_has_its_texts_normalised() -> None:
    asked = SuggestRequest(query="Bj's", context=["PARIS!", " "])
    read_texts(asked)
    assert (asked.query, asked.context) == ("bjs", ["paris"])


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("Par", "par"),
        ("Paris ", "paris "),
        ("paris-", "paris-"),
        ("", ""),
        ("!", ""),
        ("x" * 128, "x" * 128),
        ("x" * 129, None),
        ("\ufdfa" * 20, None),
    ],
)
def test_a_prefix_shows_whether_its_last_word_is_whole(typed: str, read: str | None) -> None:
    assert read_prefix(typed) == read


def test_other_requests_are_served_while_many_texts_are_read() -> None:
    async def read() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        waiting = asyncio.create_task(other())
        texts = ["中" * MAX_QUERY_CHARACTERS] * 30
        assert await read_many(texts) == [read_query(texts[0])] * 30
        waiting.cancel()
        return turns

    assert asyncio.run(read()) >= 9

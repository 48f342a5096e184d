"""The routes, the pages and the API document, asked in this process."""

import asyncio
import fcntl
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nextquery.service.answering import ClientLeftError, build_service
from nextquery.service.keys import new_key
from nextquery.service.routes import readyz
from nextquery.service.schemas import TITLES, BusyError, invalid_key, rate_exceeded
from nextquery.service.sessions import session_key
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.service.trials import Trials

from .conftest import Open, recorded, refuse


def texts(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["text"] for item in answer.json()["suggestions"]]


def test_a_list_names_groups_sources_and_the_model(client: TestClient) -> None:
    answer = client.post("/v1/suggest", json={"query": "red shoes", "n": 2})
    assert texts(answer) == ["red boots", "running shoes"]
    assert [item["group"] for item in answer.json()["suggestions"]] == ["related", "related"]
    assert answer.json()["model"] == "adj"


def test_the_operator_decides_about_lists_unless_a_request_does(
    open_client: Open, tmp_path: Path
) -> None:
    (tmp_path / "titles.txt").write_text("Running shoes for winter\nThe world of boots\n")
    client = open_client(hits=tmp_path / "titles.txt", n=1, specificity=0.5)
    everything = open_client()
    assert texts(everything.post("/v1/suggest", json={"query": "red shoes"}))[0] == "red boots"
    assert texts(client.post("/v1/suggest", json={"query": "red shoes"})) == ["running shoes"]
    completed = client.post("/v1/complete", json={"prefix": ""}).json()["completions"]
    assert len(completed) == 1
    assert len(everything.post("/v1/complete", json={"prefix": ""}).json()["completions"]) > 1
    facts = client.get("/v1/models").json()["models"]
    assert [model["specificity"] for model in facts] == [0.5, 0.5]


def test_a_batch_answers_in_the_order_of_its_requests(client: TestClient) -> None:
    requests = [{"query": "red shoes", "n": 1}, {"query": "x", "model": "pop", "n": 1}]
    answers = client.post("/v1/suggest/batch", json={"requests": requests}).json()["answers"]
    assert [answer["model"] for answer in answers] == ["adj", "pop"]
    assert texts(client.post("/v1/suggest", json=requests[1])) == [
        item["text"] for item in answers[1]["suggestions"]
    ]


def queries(client: TestClient, session_id: str, owner: str = "") -> list[str]:
    """The session as the service has stored it."""
    store = client.app_state["service"].sessions
    return list(asyncio.run(store.read(session_key(owner, session_id))).queries)


@pytest.mark.parametrize("path", ["/v1/suggest", "/v1/suggest/batch"])
@pytest.mark.parametrize(
    ("change", "settings", "status"),
    [
        ({"usefulness": 1.0}, {}, 409),
        ({"model": "unknown"}, {}, 422),
        ({"query": "x" * 513}, {}, 422),
        ({"n": 0}, {}, 422),
        ({"n": 50, "context": ["q"] * 100}, {"rate_per_second": 1.0}, 429),
        ({}, {}, 503),
    ],
)
def test_a_refused_request_does_not_join_its_session(
    open_client: Open,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    change: dict[str, Any],
    settings: dict[str, Any],
    status: int,
) -> None:
    client = open_client(**settings)
    if status == 503:
        refuse(client.app_state["service"].model(None), monkeypatch)
    client.get("/v1/models")  # leaves too little of the rate for an expensive list
    for session in ("s0", "s1", "s2", "s3"):  # on a slow machine the rate may be full again
        asked = {"query": "refused", "session_id": session, **change}
        good = {"query": "fine", "session_id": session}
        requests = [good, asked, good]
        body: dict[str, Any] = asked if path == "/v1/suggest" else {"requests": requests}
        answer = client.post(path, json=body)
        if answer.status_code != 200:
            break
    if status == 429 and path == "/v1/suggest/batch":
        status = 422  # a batch above the most that the rate allows at once never passes
    assert answer.status_code == status, answer.text
    assert queries(client, session) == []


def test_an_answered_request_joins_its_session(open_client: Open) -> None:
    client = open_client()
    client.post("/v1/suggest", json={"query": "a", "session_id": "s"})
    requests: list[dict[str, Any]] = [
        {"query": query, "session_id": "s"} for query in ("b", "b", "c")
    ]
    requests.append({"query": "z", "session_id": "t", "context": ["y"]})
    client.post("/v1/suggest/batch", json={"requests": requests})
    assert queries(client, "s") == ["a", "b", "c"]
    assert queries(client, "t") == ["y", "z"]


def test_a_visitor_who_left_before_the_answer_was_not_refused(
    open_client: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def left(*arguments: Any) -> Any:
        raise ClientLeftError

    client = open_client()
    monkeypatch.setattr(Trials, "lists", left)
    assert client.post("/v1/suggest", json={"query": "a", "session_id": "s"}).status_code == 499
    assert queries(client, "s") == ["a"]


@pytest.mark.parametrize("path", ["/v1/suggest", "/v1/suggest/batch"])
def test_a_session_deleted_during_a_request_leaves_nothing(
    open_client: Open,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    path: str,
) -> None:
    client = open_client(feedback=tmp_path / "feedback", shadow="pop")
    lists = Trials.lists

    async def deleted(self: Trials, *arguments: Any) -> Any:
        made = await lists(self, *arguments)
        await client.app_state["service"].sessions.delete(session_key("", "s"))
        return made

    monkeypatch.setattr(Trials, "lists", deleted)
    asked = {"query": "red shoes", "session_id": "s"}
    body: dict[str, Any] = asked if path == "/v1/suggest" else {"requests": [asked, asked]}
    assert client.post(path, json=body).status_code == 200
    assert queries(client, "s") == []
    assert recorded(tmp_path / "feedback") == []


def test_a_key_deletes_its_own_sessions_only(open_client: Open, tmp_path: Path) -> None:
    keys = {name: new_key(name) for name in ("shop", "news")}
    (tmp_path / "keys").write_text("\n".join(key.line for key in keys.values()))
    client = open_client(keys_file=tmp_path / "keys", feedback=tmp_path / "feedback")
    headers = {name: {"X-API-Key": key.key} for name, key in keys.items()}
    for name in keys:
        asked = {"query": f"of {name}", "session_id": "same"}
        made = client.post("/v1/suggest", json=asked, headers=headers[name]).json()
        message = {"action": "dismissed", "query_id": made["query_id"], "client_id": "same"}
        message["query"] = f"of {name}"
        assert client.post("/v1/feedback", json=message, headers=headers[name]).status_code == 204
    deleted = client.delete("/v1/sessions/same", headers=headers["news"])
    assert deleted.status_code == 204
    left = recorded(tmp_path / "feedback")
    assert {(item.owner, item.query) for item in left} == {("shop", "of shop")}
    assert len(left) == 2
    assert queries(client, "same", "shop") == ["of shop"]
    assert queries(client, "same", "news") == []


def test_a_deletion_that_is_not_complete_is_503(open_client: Open, tmp_path: Path) -> None:
    folder = tmp_path / "feedback"
    client = open_client(feedback=folder)
    client.post("/v1/suggest", json={"query": "red shoes", "session_id": "s"})
    [path] = folder.iterdir()
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert client.delete("/v1/sessions/s").status_code == 503
    assert client.delete("/v1/sessions/s").status_code == 204
    assert not recorded(folder)


def test_feedback_beyond_the_day_s_quota_is_503_and_lists_are_served(
    open_client: Open, tmp_path: Path
) -> None:
    client = open_client(feedback=tmp_path / "feedback", feedback_mb=1)
    event = {"action": "shown", "query_id": "a", "client_id": "b", "query": "c"}
    event["suggestions"] = ["x" * 512] * 50  # type: ignore[assignment]
    statuses = [client.post("/v1/feedback", json=event).status_code for _ in range(60)]
    assert set(statuses) == {204, 503}
    assert statuses == sorted(statuses)
    size = sum(path.stat().st_size for path in (tmp_path / "feedback").iterdir())
    assert size < 2_000_000
    assert texts(client.post("/v1/suggest", json={"query": "red shoes", "n": 1})) == ["red boots"]


def test_candidates_are_scored_in_their_order(open_client: Open) -> None:
    body = {"context": ["red shoes"], "candidates": ["red boots", "never typed"]}
    scores = open_client(score=True).post("/v1/score", json=body).json()["scores"]
    assert [score["text"] for score in scores] == body["candidates"]
    assert scores[1]["log_likelihood"] < scores[0]["log_likelihood"] < 0


def test_nobody_gets_a_score_unless_scores_are_switched_on(client: TestClient) -> None:
    refused = client.post("/v1/score", json={"candidates": ["red boots"]})
    assert refused.status_code == 403
    assert "`score` is off" in refused.json()["detail"]
    assert texts(client.post("/v1/suggest", json={"query": "red shoes", "n": 1})) == ["red boots"]


def test_completions_begin_with_the_prefix(client: TestClient) -> None:
    result = client.post("/v1/complete", json={"prefix": "re"}).json()["completions"]
    assert result
    assert all(item["text"].startswith("re") and item["group"] is None for item in result)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/explain", {"context": ["red shoes"]}),
        ("/v1/feedback", {"action": "dismissed", "query_id": "a", "client_id": "b", "query": "c"}),
    ],
)
def test_what_this_service_cannot_do_is_501(client: TestClient, path: str, body: Any) -> None:
    assert client.post(path, json=body).status_code == 501


def test_trends_are_the_list_of_the_model_of_that_name(
    serve: Any, served_models: dict[str, Path], tmp_path: Path, open_client: Open
) -> None:
    names = {"adj": "adjacency", "trends": "popularity"}
    models = tuple(NamedModel(name, served_models[kind]) for name, kind in names.items())
    client = serve(ServiceSettings(models, tmp_path))
    answer = client.get("/v1/trends?n=2").json()
    assert (answer["model"], len(answer["trends"])) == ("trends", 2)
    assert client.get("/v1/trends?n=0").status_code == 422
    refused = open_client().get("/v1/trends")
    assert (refused.status_code, "trends" in refused.text) == (404, True)


def test_models_are_listed_the_default_first(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    assert [(model["name"], model["kind"]) for model in listed["models"]] == [
        ("adj", "adjacency"),
        ("pop", "popularity"),
    ]
    assert listed["feedback"] is False


def test_answers_do_not_say_how_long_they_took(open_client: Open) -> None:
    client = open_client(score=True)
    bodies: dict[str, dict[str, Any]] = {
        "suggest": {"query": "red shoes"},
        "complete": {"prefix": "re"},
        "score": {"candidates": ["red boots"]},
        "suggest/batch": {"requests": [{"query": "red shoes"}]},
    }
    for route, body in bodies.items():
        answer = client.post(f"/v1/{route}", json=body, headers={"X-Admin-Key": "a guess"})
        assert answer.status_code == 200
        assert "took" not in answer.text
        assert not {"server-timing", "x-response-time", "date"} & set(answer.headers)


def test_an_admin_key_gets_the_time_an_answer_took(open_client: Open, tmp_path: Path) -> None:
    made = new_key("operator")
    (tmp_path / "admins").write_text(made.line + "\n", encoding="utf-8")
    client = open_client(admin_keys_file=tmp_path / "admins")
    headers = {"X-Admin-Key": made.key}
    answer = client.post("/v1/suggest", json={"query": "red shoes"}, headers=headers)
    assert re.fullmatch(r"total;dur=\d+\.\d\d", answer.headers["server-timing"])
    plain = client.post("/v1/suggest", json={"query": "red shoes"})
    assert "server-timing" not in plain.headers


def test_a_text_that_expands_is_read_once_and_bounded(open_client: Open) -> None:
    client = open_client(score=True)
    context = [f"{number} {chr(0xFDFA) * 450}" for number in range(100)]
    long = "\ufdfa" * 512
    for route, body in (
        ("suggest", {"query": long, "n": 50}),
        ("complete", {"prefix": long, "n": 50}),
        ("score", {"candidates": [long, "paris"]}),
    ):
        answer = client.post(f"/v1/{route}", json={"context": context, **body})
        assert answer.status_code == 200
    assert client.post("/v1/score", json={"candidates": [long]}).json()["scores"][0]["text"] == long


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
def test_pages_are_served_with_their_content_type(client: TestClient, path: str, kind: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, kind)


def test_a_service_that_loads_or_stops_is_not_ready(settings: ServiceSettings) -> None:
    async def status() -> tuple[int, bytes]:
        answer = await readyz(service)
        return answer.status_code, bytes(answer.body)

    service = build_service(settings)
    assert asyncio.run(status()) == (503, b'{"status":"loading"}')
    service.stop_soon()
    assert asyncio.run(status()) == (503, b'{"status":"stopping"}')


UNKNOWN_PATHS = (
    *("/metrics/", "/healthz/", "/readyz/", "/docs/", "/openapi.json/", "/v1/models/", "/static"),
    *("/widget", "/static/swagger", "//healthz", "//evil.example/%2e%2e"),
)


@pytest.mark.parametrize("keys", [False, True])
def test_nothing_is_redirected_to_the_host_that_a_request_names(
    open_client: Open, monkeypatch: pytest.MonkeyPatch, keys: bool
) -> None:
    if keys:
        monkeypatch.setenv("NEXTQUERY_KEYS", new_key("shop").line)
    client = open_client()
    for path in UNKNOWN_PATHS:
        # As a full address: the client would take a path that begins with // for a host.
        url = f"http://testserver{path}"
        answer = client.get(url, headers={"Host": "evil.example"}, follow_redirects=False)
        assert answer.status_code in (401, 404), path
        assert "evil" not in f"{answer.headers}{answer.text}", path


SECRET = "zyzzyva"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/suggest", {"query": "x", SECRET: 1}, 422),
        ("/v1/suggest", {"query": "x", "n": SECRET}, 422),
        ("/v1/suggest", {"query": "x", "model": SECRET}, 422),
        (f"/{SECRET}", {}, 404),
        ("/v1/models", {}, 405),
    ],
)
def test_an_error_is_a_problem_document(
    client: TestClient, path: str, body: dict[str, object], status: int
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    result = answer.json()
    assert (result["status"], result["title"]) == (status, TITLES[status])
    assert result["request_id"] == answer.headers["x-request-id"]
    assert "n" not in body or SECRET not in answer.text, "values are never repeated"


def test_a_refusal_says_when_to_come_again_in_whole_seconds() -> None:
    assert BusyError("later", 0.2, "busy").headers == {"Retry-After": "1"}
    assert rate_exceeded(7.6).headers == {"Retry-After": "8"}
    assert (rate_exceeded(1).status, invalid_key("X-API-Key").status) == (429, 401)


def test_the_document_names_the_served_models_and_problems(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    model = document["components"]["schemas"]["SuggestRequest"]["properties"]["model"]
    assert model["anyOf"][0]["enum"] == ["adj", "pop"]
    refused = document["paths"]["/v1/suggest"]["post"]["responses"]["422"]["content"]
    assert list(refused) == ["application/problem+json"]
    assert not any(path.startswith("/admin") for path in document["paths"])


def test_the_links_of_a_list_lead_to_routes_that_exist(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    links = document["paths"]["/v1/suggest"]["post"]["responses"]["200"]["links"]
    known = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    linked = {link["operationId"] for link in links.values()}
    assert linked <= known
    # A list, its feedback, the next list of the session, its end: what schemathesis follows.
    assert {name.split("_v1_")[0] for name in linked} == {"feedback", "suggest", "delete_session"}


def test_the_document_asks_for_keys_only_where_the_service_does(
    open_client: Open, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text(new_key("shop").line)
    guarded = open_client(keys_file=tmp_path / "keys", public=frozenset({"docs"}))
    for client, asked in ((open_client(), False), (guarded, True)):
        document = client.get("/openapi.json").json()
        assert ("security" in document["paths"]["/v1/suggest"]["post"]) == asked


def test_other_origins_are_let_in_only_where_they_are_named(open_client: Open) -> None:
    asked = {"Origin": "https://shop.example"}
    named = open_client(cors_origins=("https://shop.example",)).get("/v1/models", headers=asked)
    assert named.headers["access-control-allow-origin"] == "https://shop.example"
    assert named.headers["access-control-expose-headers"] == "Retry-After"
    assert "access-control-allow-credentials" not in named.headers, "no cookies are used"
    unnamed = open_client().get("/v1/models", headers=asked)
    assert "access-control-allow-origin" not in unnamed.headers

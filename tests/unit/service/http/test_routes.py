"""The routes under `/v1`, asked in this process."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nextquery.service.app import build_app
from nextquery.service.service import build_service
from nextquery.service.settings import NamedModel, ServiceSettings

Open = Callable[..., TestClient]


def texts(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["text"] for item in answer.json()["suggestions"]]


def test_a_list_names_groups_sources_and_the_model(open_client: Open) -> None:
    answer = open_client().post("/v1/suggest", json={"query": "red shoes", "n": 2})
    assert texts(answer) == ["red boots", "running shoes"]
    assert [item["group"] for item in answer.json()["suggestions"]] == ["related", "related"]
    assert answer.json()["model"] == "adj"


def test_a_batch_answers_in_the_order_of_its_requests(open_client: Open) -> None:
    client = open_client()
    requests = [{"query": "red shoes", "n": 1}, {"query": "x", "model": "pop", "n": 1}]
    answers = client.post("/v1/suggest/batch", json={"requests": requests}).json()["answers"]
    assert [answer["model"] for answer in answers] == ["adj", "pop"]
    assert texts(client.post("/v1/suggest", json=requests[1])) == [
        item["text"] for item in answers[1]["suggestions"]
    ]


def test_a_session_is_kept_until_it_is_deleted(open_client: Open) -> None:
    client = open_client()
    first = {"query": "red shoes", "session_id": "v1", "n": 1}
    client.post("/v1/suggest", json=first)
    unknown = {"query": "never typed", "session_id": "v1", "n": 1}
    assert client.delete("/v1/sessions/v1").status_code == 204
    assert client.delete("/v1/sessions/v1").status_code == 204, "a second time, too"
    assert texts(client.post("/v1/suggest", json=unknown)) == texts(
        client.post("/v1/suggest", json={"query": "never typed", "n": 1})
    )


def test_candidates_are_scored_in_their_order(open_client: Open) -> None:
    body = {"context": ["red shoes"], "candidates": ["red boots", "never typed"]}
    scores = open_client().post("/v1/score", json=body).json()["scores"]
    assert [score["text"] for score in scores] == body["candidates"]
    assert scores[1]["log_likelihood"] < scores[0]["log_likelihood"] < 0


def test_where_scores_are_closed_nobody_gets_one(open_client: Open) -> None:
    client = open_client(score=False)
    refused = client.post("/v1/score", json={"candidates": ["red boots"]})
    assert (refused.status_code, refused.json()["detail"]) == (403, "This service gives no scores.")
    assert texts(client.post("/v1/suggest", json={"query": "red shoes", "n": 1})) == ["red boots"]


def test_completions_begin_with_the_prefix(open_client: Open) -> None:
    found = open_client().post("/v1/complete", json={"prefix": "re"}).json()["completions"]
    assert found
    assert all(item["text"].startswith("re") and item["group"] is None for item in found)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/explain", {"context": ["red shoes"]}),
        ("/v1/feedback", {"action": "dismissed", "query_id": "a", "client_id": "b", "query": "c"}),
    ],
)
def test_what_this_service_cannot_do_is_501(open_client: Open, path: str, body: Any) -> None:
    assert open_client().post(path, json=body).status_code == 501


def test_feedback_is_written_where_there_is_a_folder(open_client: Open, tmp_path: Path) -> None:
    client = open_client(feedback=tmp_path / "feedback")
    query_id = client.post("/v1/suggest", json={"query": "red shoes"}).json()["query_id"]
    body = {"action": "dismissed", "query_id": query_id, "client_id": "b", "query": "red shoes"}
    assert client.post("/v1/feedback", json=body).status_code == 204
    written = "".join(p.read_text() for p in (tmp_path / "feedback").rglob("*") if p.is_file())
    assert query_id in written


def test_trends_are_the_list_of_the_model_of_that_name(
    served_models: dict[str, Path], tmp_path: Path, open_client: Open
) -> None:
    names = (
        NamedModel("adj", served_models["adjacency"]),
        NamedModel("trends", served_models["popularity"]),
    )
    service = build_service(ServiceSettings(names, tmp_path))
    with TestClient(build_app(service)) as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.01)
        answer = client.get("/v1/trends?n=2").json()
        assert (answer["model"], len(answer["trends"])) == ("trends", 2)
        assert client.get("/v1/trends?n=0").status_code == 422
    refused = open_client().get("/v1/trends")
    assert (refused.status_code, "trends" in refused.text) == (404, True)


def test_models_are_listed_the_default_first(open_client: Open) -> None:
    listed = open_client().get("/v1/models").json()
    assert [(model["name"], model["kind"]) for model in listed["models"]] == [
        ("adj", "adjacency"),
        ("pop", "popularity"),
    ]
    assert listed["feedback"] is False

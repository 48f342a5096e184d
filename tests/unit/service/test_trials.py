"""Trials as visitors meet them: a service of count models in this process."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.feedback.made_up import publish_shortest_first

from nextquery import load
from nextquery.feedback.assignment import Share, split_arm
from nextquery.feedback.events import ServedList, ShadowList
from nextquery.feedback.impressions import read_feedback
from nextquery.feedback.settings import Bounds
from nextquery.logs.data_folder import PreparedData
from nextquery.normalise import break_words
from nextquery.service.keys import new_key
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity

from .conftest import Open, recorded, refuse, wait_until

SESSIONS = [(f"user {n}", ("red shoes", text)) for n, text in enumerate(["boots", "socks"] * 3)]
SESSIONS += [(f"user {n}", ("paris", "rome")) for n in range(9)]
Serve = Callable[[ServiceSettings], TestClient]


@pytest.fixture(scope="module")
def folders(prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data: PreparedData = prepared(tiny_log(SESSIONS))
    folder = tmp_path_factory.mktemp("models")
    fit_model(Adjacency, data).save(folder / "A")
    fit_model(Popularity, data).save(folder / "B")
    return folder


@pytest.fixture
def opened(folders: Path, tmp_path: Path, serve: Serve) -> Open:
    settings = ServiceSettings(
        models=(NamedModel("A", folders / "A"), NamedModel("B", folders / "B")),
        control=tmp_path,
        feedback=tmp_path / "feedback",
        budget_ms=20_000,
    )
    return lambda **trial: serve(replace(settings, **trial))


def texts(answer: Any) -> list[str]:
    return [item["text"] for item in answer["suggestions"]]


def ask(client: TestClient, **body: Any) -> Any:
    answer = client.post("/v1/suggest", json={"query": "red shoes", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def lists_of(tmp_path: Path) -> list[Any]:
    """The lists that were recorded."""
    return recorded(tmp_path / "feedback")


def refuse_from(client: TestClient, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(client.app_state["service"].model(name), monkeypatch)


def test_every_list_is_recorded_with_its_session_and_model(opened: Open, tmp_path: Path) -> None:
    answer = ask(opened(), context=["shoes"], session_id="visitor-1", n=2)
    [served] = lists_of(tmp_path)
    assert isinstance(served, ServedList)
    assert served.query_id == answer["query_id"]
    assert (served.client_id, served.context, served.query) == (
        "visitor-1", ("shoes",), "red shoes",
    )  # fmt: skip
    assert (served.model, served.trial, served.fallback) == ("A", None, False)
    assert served.version
    assert [(item.text, item.source, item.model) for item in served.suggestions] == [
        ("boots", "seen", "A"), ("socks", "seen", "A"),
    ]  # fmt: skip


def test_nothing_is_recorded_without_a_folder_for_it(opened: Open, tmp_path: Path) -> None:
    ask(opened(feedback=None), n=2)
    assert not (tmp_path / "feedback").exists()


def test_interleaved_lists_have_suggestions_of_both(opened: Open, tmp_path: Path) -> None:
    client = opened(interleave=("A", "B"))
    lists = [ask(client, session_id=f"visitor-{n}", n=4) for n in range(12)]
    assert {answer["model"] for answer in lists} == {"A+B"}
    firsts = Counter(item.suggestions[0].model for item in lists_of(tmp_path))
    assert set(firsts) == {"A", "B"}, "a coin decides who begins"
    for served in lists_of(tmp_path):
        assert [arm.name for arm in served.trial.arms] == ["A", "B"]
        teams = [item.model for item in served.suggestions]
        assert sorted(teams[:2]) == ["A", "B"]


def test_the_same_session_sees_the_same_list_again(opened: Open) -> None:
    client = opened(interleave=("A", "B"))
    for n in range(6):
        first, again = (ask(client, session_id=f"visitor-{n}", n=4) for _ in range(2))
        assert first["suggestions"] == again["suggestions"]


def test_requests_that_name_a_model_are_not_in_the_trial(opened: Open, tmp_path: Path) -> None:
    answer = ask(opened(interleave=("A", "B")), model="B", session_id="visitor-1")
    assert answer["model"] == "B"
    assert lists_of(tmp_path)[0].trial is None


def test_a_split_is_by_session(opened: Open, tmp_path: Path) -> None:
    shares = (Share("A", 50), Share("B", 50))
    client = opened(split=shares)
    for n in range(12):
        answer = ask(client, session_id=f"visitor-{n}")
        assert answer["model"] == split_arm(shares, f"\0visitor-{n}")
    assert {item.model for item in lists_of(tmp_path)} == {"A", "B"}
    assert all(item.trial.kind == "split" for item in lists_of(tmp_path))
    assert ask(client)["model"] == "A", "without a session the first model answers"
    assert lists_of(tmp_path)[-1].trial is None


def sessions_of(arm: str, shares: tuple[Share, ...]) -> Iterator[str]:
    names = (f"visitor-{number}" for number in range(1000))
    return (name for name in names if split_arm(shares, f"\0{name}") == arm)


def test_the_fallback_answers_for_an_arm_that_is_busy(
    opened: Open, folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = (Share("A", 50), Share("B", 50))
    client = opened(split=shares, fallback=folders / "A")
    refuse_from(client, "B", monkeypatch)
    answer = ask(client, session_id=next(sessions_of("B", shares)))
    assert (answer["model"], answer["fallback"]) == ("adjacency", True)
    [served] = lists_of(tmp_path)
    assert (served.trial.arm, served.fallback) == ("B", True)
    named = client.post("/v1/suggest", json={"query": "red shoes", "model": "B"})
    assert named.status_code == 503, "who names a model wants no other"


def test_an_arm_without_fallback_that_fails_is_recorded(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = (Share("A", 50), Share("B", 50))
    client = opened(split=shares)
    refuse_from(client, "B", monkeypatch)
    visitor = next(sessions_of("B", shares))
    asked = {"query": "red shoes", "session_id": visitor}
    assert client.post("/v1/suggest", json=asked).status_code == 503
    [served] = lists_of(tmp_path)
    assert (served.client_id, served.trial.arm, served.model) == (visitor, "B", "B")
    assert served.suggestions == ()
    assert 'nextquery_arm_failures_total{model="B"} 1.0' in client.get("/metrics").text
    wrong = client.post("/v1/suggest", json=asked | {"n": -1})
    assert wrong.status_code == 422
    assert len(lists_of(tmp_path)) == 1, "the model is not to blame"


@pytest.mark.parametrize("fallback", [False, True])
def test_an_interleaved_model_that_fails_leaves_the_list_to_the_other(
    opened: Open, folders: Path, tmp_path: Path, fallback: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = opened(interleave=("A", "B"), fallback=folders / "B" if fallback else None)
    refuse_from(client, "A", monkeypatch)
    answer = ask(client, session_id="visitor-1")
    assert (answer["model"], answer["fallback"]) == ("B", False)
    assert lists_of(tmp_path)[0].trial is None
    refuse_from(client, "B", monkeypatch)
    both = client.post("/v1/suggest", json={"query": "paris", "session_id": "visitor-2"})
    assert both.status_code == (200 if fallback else 503)
    assert both.json().get("fallback", False) == fallback


def test_a_batch_takes_part_item_by_item(opened: Open, tmp_path: Path) -> None:
    client = opened(split=(Share("A", 1), Share("B", 1)))
    items = [{"query": "red shoes", "session_id": f"visitor-{n}"} for n in range(10)]
    answers = client.post("/v1/suggest/batch", json={"requests": items}).json()["answers"]
    assert [item["model"] for item in answers] == [
        ask(client, session_id=f"visitor-{n}")["model"] for n in range(10)
    ]
    assert len(lists_of(tmp_path)) == 20


def test_a_model_in_the_shadow_is_recorded_and_never_shown(opened: Open, tmp_path: Path) -> None:
    client = opened(shadow="B")
    answer = ask(client, session_id="visitor-1", n=2)
    assert [item["text"] for item in answer["suggestions"]] == ["boots", "socks"]
    wait_until(lambda: client.get("/healthz").is_success and len(lists_of(tmp_path)) == 2)
    shadow = lists_of(tmp_path)[1]
    assert isinstance(shadow, ShadowList)
    assert (shadow.query_id, shadow.model) == (answer["query_id"], "B")
    assert shadow.suggestions[0].text not in ("boots", "socks")


def test_a_list_is_served_though_it_cannot_be_recorded(opened: Open, tmp_path: Path) -> None:
    client = opened()
    (tmp_path / "feedback").rmdir()
    (tmp_path / "feedback").write_text("a file now")
    assert ask(client)["suggestions"]
    assert "nextquery_feedback_lost_total 1.0" in client.get("/metrics").text


def test_feedback_says_where_it_came_from_in_few_digits(opened: Open, tmp_path: Path) -> None:
    client = opened()
    answer = ask(client, session_id="visitor-1")
    message = {
        "action": "shown", "query": "red shoes", "query_id": answer["query_id"],
        "client_id": "visitor-1", "suggestions": ["boots"],
    }  # fmt: skip
    assert client.post("/v1/feedback", json=message).status_code == 204
    [path] = (tmp_path / "feedback").glob("queries-*.ndjson")
    line = json.loads(path.read_text())
    assert line["origin"] == lists_of(tmp_path)[0].origin
    assert len(line["origin"]) == 4


@pytest.mark.parametrize(
    ("query", "follower"),
    [("便宜的北京酒店", "上海的便宜酒店"), ("東京の安いホテル", "大阪の安いホテル"),
     ("โรงแรมราคาถูก", "เที่ยวบินราคาถูก"), ("paris", "iphone 手机壳")],
)  # fmt: skip
def test_feedback_in_scripts_without_spaces_counts(
    prepared: Any, tiny_log: Any, opened: Open, tmp_path: Path, query: str, follower: str
) -> None:
    """The service records words with spaces, and sends the text as people write it."""
    words = (break_words(query), break_words(follower))
    assert words[1] != follower
    data: PreparedData = prepared(tiny_log([(f"user {n}", words) for n in range(9)]))
    fit_model(Adjacency, data).save(tmp_path / "model")
    client = opened(models=(NamedModel("A", tmp_path / "model"),))
    answer = ask(client, query=query, session_id="visitor-1")
    assert texts(answer) == [follower]
    message = {"query": query, "query_id": answer["query_id"], "client_id": "visitor-1"}
    shown = {"action": "shown", "suggestions": texts(answer)}
    clicked = {"action": "clicked", "suggestion": follower, "position": 1}
    for event in (shown, clicked):
        assert client.post("/v1/feedback", json={**message, **event}).status_code == 204
    result = read_feedback(tmp_path / "feedback", Bounds())
    [impression] = result.impressions
    assert impression.taken == {0}
    assert [item.text for item in impression.suggestions] == [words[1]], "as models know it"
    assert not any(result.excluded.values())


def test_a_reranker_is_served_and_reloaded_in_place_of_another(
    opened: Open, folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switched off and on again by the folder alone; the lists follow at the next reload."""
    key = new_key("operator")
    monkeypatch.setenv("NEXTQUERY_ADMIN_KEYS", key.line)
    publish_shortest_first(folders / "B", tmp_path / "model", characters=4.0)
    client = opened(models=(NamedModel("main", tmp_path / "model"),))
    on = texts(ask(client, n=4))
    assert on == ["rome", "paris", "boots", "socks"]
    load(tmp_path / "model").save_switched(  # type: ignore[attr-defined]
        tmp_path / "model", enabled=False, reason="a test"
    )
    reloaded = client.post("/admin/reload", headers={"X-Admin-Key": key.key})
    assert reloaded.status_code == 200, reloaded.text
    off = texts(ask(client, n=4))
    assert off == [item.text for item in load(folders / "B").suggest(["red shoes"], 4)]
    assert on != off

"""The group `again`, the store of signed-in users, and where a history must never appear."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from nextquery import load
from nextquery.guard.guard import Guard
from nextquery.service.histories import (
    DAY,
    HistoryStore,
    MemoryHistories,
    RedisHistories,
    ReturningVisitors,
)
from nextquery.service.keys import new_key
from nextquery.service.monitoring import JsonFormatter
from nextquery.service.schemas import PastSearch, read_history
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.suggesters.blend import BlendSettings, Mixture, publish_blend
from nextquery.suggesters.returning import FEATURES, Regression, Returning, ReturningSettings

from .conftest import Open, serving, two_models, wait_until

StoreAndClock = tuple[Callable[[], HistoryStore], list[float]]
PLANTED = "quokka zeppelin 4711"
"""A text that is in no log."""


@pytest.fixture(scope="module")
def returning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model by hand: what was typed more often is likelier; once gives a probability of .5."""
    weights = np.zeros(len(FEATURES) + 1)
    weights[FEATURES.index("log_count")] = 2.0
    weights[-1] = -2.0 * np.log(2.0)
    folder = tmp_path_factory.mktemp("again") / "returning"
    Returning(Regression(weights), 0.4, ReturningSettings(), Guard()).save(folder)
    return folder


@pytest.fixture(scope="module")
def client(
    served_models: dict[str, Path], returning: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    """One service that keeps histories, for tests of different users."""
    models, folder = two_models(served_models), tmp_path_factory.mktemp("service")
    with serving(ServiceSettings(models, folder, returning=returning, user_days=30)) as shared:
        yield shared


def past(*queries: str, count: int = 1) -> list[dict[str, Any]]:
    return [{"query": query, "time": time.time() - 100, "count": count} for query in queries]


def texts(answer: Any) -> list[str]:
    return [item["text"] for item in answer.json()["again"]]


def without_id(answer: Any) -> dict[str, Any]:
    return {key: value for key, value in answer.json().items() if key != "query_id"}


@pytest.mark.parametrize("with_model", [True, False])
def test_a_store_that_no_model_uses_is_warned_about(
    open_client: Open, returning: Path, caplog: pytest.LogCaptureFixture, with_model: bool
) -> None:
    with caplog.at_level("WARNING"):
        open_client(user_days=30, returning=returning if with_model else None)
    warned = [record.message for record in caplog.records if "user_days" in record.message]
    assert len(warned) == (0 if with_model else 1)


def test_again_has_the_likeliest_earlier_queries(client: TestClient) -> None:
    history = [*past("once", "red shoes"), *past("often", count=9), *past("twice", count=2)]
    body = {"query": "red shoes", "history": history, "context": ["earlier now"]}
    answer = client.post("/v1/suggest", json=body)
    assert answer.status_code == 200
    assert texts(answer) == ["often", "twice", "earlier now"]  # at most three, never the last
    probabilities = [item["probability"] for item in answer.json()["again"]]
    assert probabilities == pytest.approx([100 / 104, 9 / 13, 0.5])
    plain = client.post("/v1/suggest", json={"query": "red shoes", "context": ["earlier now"]})
    assert {k: v for k, v in without_id(answer).items() if k != "again"} == without_id(plain)
    [listed, *_] = plain.json()["suggestions"]
    body["history"] = past(listed["text"], count=9)
    assert listed["text"] not in texts(client.post("/v1/suggest", json=body))


def test_settings_bound_the_group(open_client: Open, returning: Path) -> None:
    history = [*past("once"), *past("often", count=9), *past("twice", count=2)]
    for settings, expected in (
        ({"again": 1}, ["often"]),
        ({"again_threshold": 0.9}, ["often", "twice", "once"]),  # others need a quarter of it
        ({"again_threshold": 0.99}, []),
    ):
        client = open_client(returning=returning, **settings)
        body = {"query": "a", "history": history}
        assert texts(client.post("/v1/suggest", json=body)) == expected


@pytest.mark.parametrize("content_type", ["application/json", "application/vnd.search+json"])
def test_first_time_visitors_get_the_same_bytes(
    open_client: Open, returning: Path, content_type: str
) -> None:
    before, after = open_client(), open_client(returning=returning, user_days=30)
    bodies = (
        ("/v1/suggest", {"query": "red shoes", "context": ["shoes"]}),
        ("/v1/suggest/batch", {"requests": [{"query": "red shoes"}, {"query": "shoes"}]}),
        ("/v1/complete", {"prefix": "re"}),
    )
    for path, body in bodies:
        answers = [
            client.post(path, content=json.dumps(body), headers={"Content-Type": content_type})
            for client in (before, after)
        ]
        assert [answer.status_code for answer in answers] == [200, 200]
        old, new = (
            [part for part in answer.text.split('"') if len(part) != 36] for answer in answers
        )
        assert old == new
        assert "again" not in answers[1].text


def test_an_empty_history_shows_nothing(client: TestClient) -> None:
    answer = client.post("/v1/suggest", json={"query": "b", "context": ["a"], "history": []})
    assert answer.json()["again"] == []


def test_without_a_model_a_history_is_ignored(open_client: Open) -> None:
    client = open_client()
    answer = client.post("/v1/suggest", json={"query": "red shoes", "history": past(PLANTED)})
    assert answer.status_code == 200
    assert "again" not in answer.json()


def test_own_past_queries_complete_first(client: TestClient) -> None:
    history = past("red balloons", "Red Wine", "blue")
    answer = client.post("/v1/complete", json={"prefix": "re", "history": history})
    assert set(texts(answer)) == {"red balloons", "red wine"}
    assert texts(client.post("/v1/complete", json={"prefix": "red w", "history": history})) == [
        "red wine"
    ]
    body = {"prefix": "red-", "history": [*history, *past("redder")]}
    assert set(texts(client.post("/v1/complete", json=body))) == {"red balloons", "red wine"}


def test_blocklist_hits_and_kill_switch_apply(
    open_client: Open, returning: Path, tmp_path: Path
) -> None:
    blocklist, hits = tmp_path / "blocklist.txt", tmp_path / "titles.txt"
    blocklist.write_text("forbidden\n")
    hits.write_text("red forbidden shoes\nred wine list\n")
    switch = tmp_path / "kill"
    client = open_client(
        returning=returning, blocklist=blocklist, hits=hits, kill_switch=switch, again=9
    )
    body = {"query": "x", "history": past("red wine", "red forbidden shoes", "no such title")}
    assert texts(client.post("/v1/suggest", json=body)) == ["red wine"]
    complete = {"prefix": "re", "history": body["history"]}
    assert texts(client.post("/v1/complete", json=complete)) == ["red wine"]
    blocklist.write_text("wine\n")
    wait_until(lambda: texts(client.post("/v1/suggest", json=body)) == ["red forbidden shoes"])
    switch.touch()
    wait_until(lambda: not texts(client.post("/v1/suggest", json=body)))
    assert texts(client.post("/v1/complete", json=complete)) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"history": past("a") * 201}, "200"),
        ({"history": [{"query": "a"}]}, "time"),
        ({"history": [{"query": "a", "time": -1}]}, "time"),
        ({"history": [{"query": "a", "time": 1, "count": 0}]}, "count"),
        ({"user_id": "not an id"}, "user_id"),
    ],
)
def test_bad_histories_are_refused(client: TestClient, body: dict[str, Any], message: str) -> None:
    answer = client.post("/v1/suggest", json={"query": "a", **body})
    assert answer.status_code == 422
    assert message in answer.json()["detail"]


def test_histories_are_normalised_and_bounded_once() -> None:
    searches = [
        PastSearch(query="Red  Shoes!", time=5.0, count=2),
        PastSearch(query="red shoes", time=3.0, count=1),
        PastSearch(query="...", time=4.0),
        PastSearch(query="w" * 100, time=2.0),
    ]
    merged = read_history(searches)
    assert [(search.text, search.count) for search in merged] == [("red shoes", 3), ("w" * 64, 1)]
    long = [PastSearch(query=f"{number} {'word ' * 100}", time=1.0) for number in range(200)]
    assert sum(len(search.text) for search in read_history(long)) <= 16_384


def test_users_are_off_by_default(open_client: Open, returning: Path) -> None:
    client = open_client(returning=returning)
    for answer in (
        client.post("/v1/suggest", json={"query": "a", "user_id": "u"}),
        client.get("/v1/users/u/searches"),
        client.delete("/v1/users/u"),
    ):
        assert answer.status_code == 409
        assert "user_days" in answer.json()["detail"]


def test_a_visitor_has_one_history(client: TestClient) -> None:
    both = {"query": "a", "user_id": "u", "history": past("a")}
    refused = client.post("/v1/suggest", json=both)
    assert refused.status_code == 409
    assert "not both" in refused.json()["detail"]


def test_a_signed_in_user_is_remembered_exported_and_forgotten(client: TestClient) -> None:
    def ask(query: str) -> Any:
        return client.post("/v1/suggest", json={"query": query, "user_id": "u-1"})

    assert texts(ask("Red Wine")) == []
    assert texts(ask("green tea")) == ["red wine"]
    assert texts(client.post("/v1/complete", json={"prefix": "re", "user_id": "u-1"})) == [
        "red wine"
    ]
    kept = client.get("/v1/users/u-1/searches").json()["searches"]
    assert [(search["query"], search["count"]) for search in kept] == [
        ("green tea", 1),
        ("red wine", 1),
    ]
    assert client.get("/v1/users/u-2/searches").json() == {"searches": []}
    assert client.delete("/v1/users/u-1").status_code == 204
    assert client.get("/v1/users/u-1/searches").json() == {"searches": []}
    assert texts(ask("white wine")) == []


def test_nothing_of_one_visitor_appears_for_another(
    open_client: Open, returning: Path, tmp_path: Path
) -> None:
    keys = {name: new_key(name) for name in ("one", "two")}
    (tmp_path / "keys").write_text("".join(f"{made.line}\n" for made in keys.values()))
    client = open_client(returning=returning, user_days=30, keys_file=tmp_path / "keys")

    def ask(key: str, path: str, body: dict[str, Any]) -> Any:
        return client.post(path, json=body, headers={"X-API-Key": keys[key].key})

    history = past(PLANTED, count=9)
    answers = [
        ask("one", "/v1/suggest", {"query": "red shoes", "history": history, "session_id": "s1"}),
        ask("one", "/v1/complete", {"prefix": "quo", "history": history}),
    ]
    ask("one", "/v1/suggest", {"query": PLANTED, "user_id": "u"})
    answers.append(ask("one", "/v1/suggest", {"query": "shoes", "user_id": "u"}))
    assert all(texts(answer) == [PLANTED] for answer in answers)
    other = past("red shoes", count=3)
    batch = {"requests": [{"query": "red shoes", "history": history}, {"query": "red shoes"}]}
    [_, second] = ask("one", "/v1/suggest/batch", batch).json()["answers"]
    assert PLANTED not in json.dumps(second)
    visitors: list[dict[str, Any]] = [{}, {"history": other}, {"history": []}, {"user_id": "v"}]
    for key in keys:
        for more in visitors:
            for path, body in (
                ("/v1/suggest", {"query": "red shoes", "n": 50}),
                ("/v1/suggest", {"query": "shoes", "session_id": "s2"}),
                ("/v1/complete", {"prefix": "quo"}),
                ("/v1/complete", {"prefix": "quokka zeppelin"}),
            ):
                answer = ask(key, path, {**body, **more})
                assert answer.status_code == 200
                assert PLANTED not in answer.text
    # The same identifier under another key is another user.
    assert PLANTED not in ask("two", "/v1/suggest", {"query": "shoes", "user_id": "u"}).text
    assert client.get("/v1/users/u/searches", headers={"X-API-Key": keys["two"].key}).json() == {
        "searches": [{"query": "shoes", "time": pytest.approx(time.time(), abs=100), "count": 1}]
    }
    client.delete("/v1/users/u", headers={"X-API-Key": keys["two"].key})
    kept = client.get("/v1/users/u/searches", headers={"X-API-Key": keys["one"].key})
    assert PLANTED in kept.text


def test_visitors_who_ask_together_get_only_what_is_theirs(client: TestClient) -> None:
    """The same query of 24 visitors, whose requests are computed in batches, twice."""

    def ask(visitor: int) -> tuple[int, str, list[str]]:
        fields: dict[str, Any] = {"history": past(f"secret {visitor} x", count=9)}
        if visitor % 3 == 0:
            client.post(
                "/v1/suggest", json={"query": f"secret {visitor} x", "user_id": f"u{visitor}"}
            )
            fields = {"user_id": f"u{visitor}"}
        answer = client.post("/v1/suggest", json={"query": "red shoes", "n": 50, **fields})
        return visitor, answer.text, texts(answer)

    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(ask, range(24)), *pool.map(ask, range(24))]
    for visitor, text, again in answers:
        assert again == [f"secret {visitor} x"]
        assert text.count("secret") == 1


def test_a_history_reaches_no_file_log_or_metric(
    open_client: Open,
    returning: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "nextquery")
    feedback = tmp_path / "feedback"
    client = open_client(returning=returning, user_days=30, feedback=feedback)
    body = {"query": "red shoes", "session_id": "s", "history": past(PLANTED, count=9)}
    assert texts(client.post("/v1/suggest", json=body)) == [PLANTED]
    assert texts(client.post("/v1/complete", json={"prefix": "q", "history": body["history"]}))
    client.post("/v1/suggest", json={**body, "history": [{"query": PLANTED}]})  # refused
    client.post("/v1/suggest", json={**body, "query": "tea", "model": "none"})  # refused
    of_user = "/v1/users/wombat-77"
    assert texts(client.post("/v1/suggest", json={"query": "tea", "user_id": "wombat-77"})) == []
    assert client.get(f"{of_user}/searches").json()["searches"]
    assert client.get(f"{of_user}/unknown").status_code == 404
    assert client.delete(of_user).status_code == 204
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"red shoes" in path.read_bytes() for path in written), "a list was recorded"
    metrics, output = client.get("/metrics").text, capfd.readouterr()
    logged = [JsonFormatter().format(record) for record in caplog.records]
    assert any("/v1/users/{user_id}" in line for line in logged)
    for word in (PLANTED.split()[0], "wombat"):
        assert not any(word.encode() in path.read_bytes() for path in written)
        assert word not in metrics + output.out + output.err + "".join(logged)


def test_an_error_while_a_history_is_read_is_logged_without_it(
    open_client: Open,
    returning: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = open_client(returning=returning)
    client.raise_server_exceptions = False  # type: ignore[attr-defined]

    def fail(self: Returning, *_: Any) -> Any:
        raise ValueError(PLANTED)

    monkeypatch.setattr(Returning, "probabilities", fail)
    answer = client.post("/v1/suggest", json={"query": "red shoes", "history": past(PLANTED)})
    assert answer.status_code == 500
    assert PLANTED not in answer.text
    logged = [JsonFormatter().format(record) for record in caplog.records]
    assert any("ValueError" in line for line in logged)
    assert not any(PLANTED in line for line in logged)


@pytest.fixture(params=["memory", "redis"])
def store_and_clock(request: pytest.FixtureRequest) -> StoreAndClock:
    """Opens a store that keeps ten days, and its clock."""
    now = [1_700_000_000.0]
    if request.param == "memory":
        return lambda: MemoryHistories(2, 10 * DAY, lambda: now[0]), now
    url = request.getfixturevalue("redis_server").url
    return lambda: RedisHistories(url, 10 * DAY, lambda: now[0]), now


@pytest.mark.anyio
async def test_stores_count_repeat_expire_and_forget(
    store_and_clock: StoreAndClock,
) -> None:
    make, now = store_and_clock
    store = make()

    async def kept() -> list[tuple[str, int]]:
        return [(search.text, search.count) for search in (await store.read("u")).queries]

    for later, query in ((0, "a"), (60, "a"), (60, "b"), (60, "a"), (4000, "a")):
        now[0] += later
        await store.append("u", query, 0)
    assert await kept() == [("a", 3), ("b", 1)]  # a repeat within half an hour counts once
    assert (await store.read("u")).queries[0].time == pytest.approx(now[0])
    now[0] += 9.98 * DAY
    await store.append("u", "c", 0)
    assert await kept() == [("c", 1), ("a", 3)]  # b is older than ten days
    for number in range(250):
        await store.append("u", f"q{number}", 0)
        now[0] += 1
    assert len(await kept()) == 200
    assert (await kept())[0] == ("q249", 1)
    await store.delete("u")
    await store.append("u", "late", 0)  # began before the deletion
    assert await kept() == []
    await store.append("u", "new", (await store.read("u")).deletions)
    assert await kept() == [("new", 1)]
    now[0] += 11 * DAY
    assert await kept() == []
    await store.close()


def test_the_model_that_the_default_folder_includes_is_used(
    returning: Path, served_models: dict[str, Path], tmp_path: Path
) -> None:
    """`blend --returning` writes it there; the folder itself opens as before."""
    mixture = Mixture.of(np.full((2, 2), 0.5))
    parts = served_models["hred"], [served_models["adjacency"]]
    publish_blend(tmp_path / "blend", *parts, mixture, BlendSettings(), returning)
    load(tmp_path / "blend")
    settings = ServiceSettings((NamedModel("main", tmp_path / "blend"),), tmp_path)
    visitors = ReturningVisitors(settings, None)
    included = visitors.open_model()
    assert included is not None
    included.learnt.check()

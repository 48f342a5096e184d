"""One service with everything switched on, asked over HTTP."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from nextquery import load
from nextquery.guard.guard import TitleHits
from nextquery.service.keys import new_key
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.rescue import Rescue

API, ADMIN = new_key("shop"), new_key("operator")
KEY = {"X-API-Key": API.key}
MARKER = "zyzzyvamarker"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service")
    (folder / "keys").write_text(API.line)
    (folder / "blocklist").write_text("# never\nforbidden\n")
    return folder


@pytest.fixture(scope="module")
def rescue(prepared: Any, tiny_log: Any, files: Path) -> Path:
    log = tiny_log([("u1", ["red shose", "red shoes"]), ("u2", ["red shose", "red shoes"])])
    titles = TitleHits(["Red shoes"])
    fit_model(Rescue, prepared(log), hits=titles).save(files / "rescue")
    return files / "rescue"


@pytest.fixture(scope="module")
def service(start_service: Any, served_models: dict[str, Path], files: Path, rescue: Path) -> Any:
    return start_service(
        served_models["hred"],
        *("--compare", f"adj={served_models['adjacency']}"),
        *("--compare", f"pop={served_models['popularity']}"),
        *("--rescue", rescue),
        *("--keys", files / "keys", "--blocklist", files / "blocklist"),
        *("--feedback", files / "feedback", "--budget-ms", "60000"),
        *("--public", "metrics", "--public", "docs", "--score"),
        NEXTQUERY_ADMIN_KEYS=ADMIN.line,
    )


def asked(service: Any, path: str, body: Any) -> Any:
    answer = service.post(path, body, **KEY)
    assert answer.status_code == 200, answer.text
    return answer.json()


def texts(answer: Any) -> list[str]:
    return [item["text"] for item in answer["suggestions"]]


def test_suggestions_say_their_score_source_and_model(service: Any) -> None:
    answer = asked(service, "/v1/suggest", {"query": "red shoes", "n": 2, "model": "adj"})
    assert texts(answer) == ["red boots", "running shoes"]
    assert answer["suggestions"][0]["source"] == "seen in the log (5 times after the last query)"
    assert answer["model"] == "adj"
    assert answer["fallback"] is False
    assert "took_ms" not in answer


def test_a_session_is_kept_and_can_be_deleted(service: Any) -> None:
    def ask(query: str, **more: Any) -> list[str]:
        return texts(asked(service, "/v1/suggest", {"query": query, **more}))

    ask("red shoes", session_id="visitor-1")
    kept = ask("paris", session_id="visitor-1")
    assert kept == ask("paris", context=["red shoes"])
    assert kept != ask("paris"), "the earlier query must matter"
    deleted = service.request("DELETE", "/v1/sessions/visitor-1", headers=KEY)
    assert deleted.status_code == 204
    assert ask("paris", session_id="visitor-1") == ask("paris")


def test_score_complete_explain(service: Any) -> None:
    scored = asked(
        service, "/v1/score", {"context": ["paris"], "candidates": ["paris hotels", "qqq"]}
    )
    assert [score["unknown"] for score in scored["scores"]] == [[], ["qqq"]]
    assert all(score["log_likelihood"] < 0 for score in scored["scores"])
    for model in ("hred", "adj"):
        completed = asked(service, "/v1/complete", {"prefix": "paris ho", "model": model})
        assert completed["completions"]
        assert all(item["text"].startswith("paris ho") for item in completed["completions"])
    explained = asked(service, "/v1/explain", {"context": ["paris", "rome"]})
    assert [query["text"] for query in explained["queries"]] == ["paris", "rome"]
    assert all(0 < query["share"] < 1 for query in explained["queries"])


def test_reload_swaps_and_a_bad_folder_is_refused(
    service: Any, served_models: dict[str, Path]
) -> None:
    def reload() -> httpx.Response:
        return service.post("/admin/reload", None, **{"X-Admin-Key": ADMIN.key})  # type: ignore[no-any-return]

    def follows() -> list[str]:
        return texts(asked(service, "/v1/suggest", {"query": "red shoes", "model": "adj"}))

    before = follows()
    asked(service, "/v1/suggest", {"query": "red shoes", "session_id": "visitor-3"})
    assert set(reload().json()) == {"hred", "adj", "pop", "rescue"}
    kept = texts(asked(service, "/v1/suggest", {"query": "paris", "session_id": "visitor-3"}))
    fresh = {"query": "paris", "context": ["red shoes"]}
    assert kept == texts(asked(service, "/v1/suggest", fresh)), "the session survives"
    counts = served_models["adjacency"] / "query_counts.npy"
    good = counts.read_bytes()
    # A file of the folder is replaced, not written into: the service has the old one mapped.
    _replace(counts, good[:-1] + b"\x07")
    try:
        refused = reload()
        assert refused.status_code == 409
        assert "altered or truncated" in refused.json()["detail"]
        assert follows() == before
    finally:
        _replace(counts, good)
    loaded = len([line for line in service.log if "models loaded" in line])
    os.kill(service.process.pid, signal.SIGHUP)
    service.wait_until(
        lambda: len([line for line in service.log if "models loaded" in line]) > loaded
    )
    assert follows() == before


def test_a_transformer_is_served_in_batches_and_replaced(
    start_service: Any, served_models: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(served_models["transformer"], folder)
    settings = ("--budget-ms", "20000", "--batch-size", "8")
    service = start_service(folder, *settings, NEXTQUERY_ADMIN_KEYS=ADMIN.line)

    def ask(**body: Any) -> list[str]:
        return texts(asked(service, "/v1/suggest", body))

    requests = [{"query": query, "context": ["red shoes"]} for query in ("paris", "rome")]
    batch = asked(service, "/v1/suggest/batch", {"requests": requests})["answers"]
    assert [texts(answer) for answer in batch] == [ask(**request) for request in requests]
    ask(query="red shoes", session_id="visitor")
    before = ask(query="paris", session_id="visitor")
    assert before == ask(**requests[0])
    folder.rename(tmp_path / "old")
    shutil.copytree(served_models["hred"], folder)
    assert service.post("/admin/reload", None, **{"X-Admin-Key": ADMIN.key}).status_code == 200
    after = ask(query="paris", context=["red shoes"])
    assert after == [item.text for item in load(folder).suggest(["red shoes", "paris"], 5)]
    assert after != before


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)


def test_no_query_text_reaches_the_log(service: Any) -> None:
    asked(service, "/v1/suggest", {"query": MARKER, "context": [MARKER], "session_id": MARKER})
    asked(service, "/v1/score", {"context": [MARKER], "candidates": [MARKER]})
    asked(service, "/v1/complete", {"prefix": MARKER})
    service.post("/v1/suggest", {"query": MARKER, MARKER: 1}, **KEY)
    service.post("/v1/explain", {"context": [MARKER], "model": MARKER}, **KEY)
    service.request("DELETE", f"/v1/sessions/{MARKER}", headers=KEY)
    service.get(f"/{MARKER}?q={MARKER}")
    seen = service.get("/metrics").text
    last = service.get("/nowhere").headers["x-request-id"]
    service.wait_until(lambda: any(last in line for line in service.log))
    assert MARKER not in "".join(service.log)
    assert MARKER not in seen
    entries = [json.loads(line) for line in service.log]
    assert all("request_id" in entry for entry in entries if entry["message"] == "request")


def test_pages_come_from_here_alone(service: Any) -> None:
    for path in ("/", "/docs"):
        page = service.get(path)
        assert page.status_code == 200
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        assert "://" not in page.text
        assert " style=" not in page.text
    assert service.get("/static/swagger/swagger-ui-bundle.js").status_code == 200
    assert service.get("/static/../app.py").status_code == 404


@pytest.mark.parametrize("specificity", [0.0, 0.5])
def test_a_list_is_ranked_by_the_specificity_asked_for(service: Any, specificity: float) -> None:
    body = {"query": "red shoes", "specificity": specificity, "known": "free"}
    items = asked(service, "/v1/suggest", body)["suggestions"]
    assert len(items) == 5
    for item in items:
        if specificity:
            expected = item["log_likelihood"] - specificity * item["log_prior"]
            assert item["score"] == pytest.approx(expected, abs=1e-4)
        else:
            assert item["log_prior"] is None
    assert [item["score"] for item in items] == sorted((i["score"] for i in items), reverse=True)


def test_known_queries_only_or_new_ones_too(service: Any) -> None:
    def sources(known: str, n: int) -> list[bool]:
        answer = asked(service, "/v1/suggest", {"query": "red shoes", "n": n, "known": known})
        return [item["source"].startswith("seen in the log") for item in answer["suggestions"]]

    assert all(sources("only", 5))
    assert not all(sources("free", 20))
    # the model's own way: known ones and others, the lists of which differ
    assert sum(sources("prefer", 5)) >= sum(sources("free", 5))


def test_after_a_query_without_results_the_rescue_leads(service: Any) -> None:
    body = {"query": "red shose", "model": "adj", "n": 3}
    before = asked(service, "/v1/suggest", body)["suggestions"]
    assert not any(item["source"].startswith("people") for item in before)
    items = asked(service, "/v1/suggest", body | {"results": 0})["suggestions"]
    assert items[0]["text"] == "red shoes"
    assert items[0]["source"].startswith("people who found nothing then searched for this (")
    [answer] = asked(service, "/v1/suggest/batch", {"requests": [body | {"results": 0}]})["answers"]
    assert answer["suggestions"] == items
    # one with results, and one that nobody searched on after, are as they were
    assert asked(service, "/v1/suggest", body | {"results": 7})["suggestions"] == before
    assert service.post("/v1/suggest", body | {"results": -1}, **KEY).status_code == 422

"""The whole loop over HTTP: a real service, visitors of known preferences, and what follows.

Lists are asked for and feedback is sent as a page does it. What the service wrote is then moved to
an earlier day, as if midnight had passed: a comparison does not count a day that is not over.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.conftest import RunningService, ServiceStarter, run_command
from tests.simulated_visitors import Session
from tests.unit.feedback.made_up import CANDIDATES, QUERIES, VISITORS, chance_sessions

from nextquery import load
from nextquery.service.keys import new_key
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

pytestmark = pytest.mark.slow

LEARNT_FROM, IN_TRIAL = 600, 250
"""Visitors, with two lists each."""


def attraction(session: Session, text: str) -> float:
    """One suggestion of each query is what people look for; the others hardly attract."""
    query, candidate = int(session[-1].split()[1]), int(text.split()[-1])
    return 0.9 if candidate == (3 * query + 1) % CANDIDATES else 0.02


PEOPLE = replace(VISITORS, attraction=attraction)


def call(*arguments: str | Path) -> Any:
    return json.loads(run_command(*arguments, "--json"))


def visit(service: RunningService, number: int, first: int) -> tuple[int, int]:
    """Visitors ask for lists and take from them, over HTTP: lists shown, suggestions taken."""
    draw = np.random.default_rng(first + 1)
    shown = taken = 0
    with httpx.Client(base_url=service.url, timeout=900) as page:
        for shopper in PEOPLE.visits(number, draw, first):
            asked = {"query": shopper.session[-1], "session_id": shopper.visitor, "n": 5}
            answer = page.post("/v1/suggest", json=asked).json()
            texts = [item["text"] for item in answer["suggestions"]]
            about = {"client_id": shopper.visitor, "query_id": answer["query_id"]}
            about["query"] = shopper.session[-1]
            told: list[Mapping[str, Any]] = [{"action": "shown", "suggestions": texts, **about}]
            position = PEOPLE.accepted_position(shopper.session, texts, draw)
            if position is not None:
                chosen = {"suggestion": texts[position], "position": position + 1}
                told.append({"action": "clicked", **chosen, **about})
            for event in told:
                assert page.post("/v1/feedback", json=event).status_code == 204
            shown, taken = shown + 1, taken + (position is not None)
    return shown, taken


def days_ago(folder: Path, days: int) -> None:
    """Move what was written today to an earlier day."""
    now = datetime.now(UTC)
    for today in {now.date(), (now - timedelta(minutes=10)).date()}:
        then = (today - timedelta(days=days)).isoformat()
        for file in folder.glob(f"*{today.isoformat()}*.ndjson"):
            moved = file.read_text(encoding="utf-8").replace(today.isoformat(), then)
            file.with_name(file.name.replace(today.isoformat(), then)).write_text(moved)
            file.unlink()


@pytest.fixture
def fitted(prepared: Any, tiny_log: Any, tmp_path: Path) -> Callable[[str, int], Path]:
    def fit(name: str, seed: int) -> Path:
        """A model whose order is by chance: independent of what attracts."""
        sessions = chance_sessions()
        order = np.random.default_rng(seed).permutation(CANDIDATES)
        changed = [
            (user, (query, f"{query} to {order[int(after.split()[-1])]}"))
            for user, (query, after) in sessions
        ]
        fit_model(Adjacency, prepared(tiny_log(changed))).save(tmp_path / name)
        return tmp_path / name

    return fit


def test_lists_feedback_report_trial_reranker_nightly_job_and_forgetting(
    fitted: Callable[[str, int], Path], start_service: ServiceStarter, tmp_path: Path
) -> None:
    first, second = fitted("first", 1), fitted("second", 2)
    folder = tmp_path / "feedback"
    arms = ("--interleave", f"A={first}", "--interleave", f"B={second}")
    service = start_service(*arms, "--feedback", folder, "--budget-ms", "20000")
    shown, taken = visit(service, LEARNT_FROM, 0)
    # Somebody wants to be forgotten, while the service runs.
    before = sum('visitor-7"' in file.read_text() for file in folder.glob("*.ndjson"))
    assert before == 3
    with httpx.Client(base_url=service.url, timeout=900) as page:
        assert page.delete("/v1/sessions/visitor-7").status_code == 204
    assert not any('visitor-7"' in file.read_text() for file in folder.glob("*.ndjson"))
    assert service.stop() == 0
    days_ago(folder, 2)

    report = call("feedback", "report", folder, "--out", tmp_path / "report")
    assert report["lists"]["shown"] == shown - 2
    assert abs(report["lists"]["taken"] - taken) <= 2
    new = tmp_path / "reranked"
    ordered = ("--base", first, "--name", "A", "--out", new, "--min-taken", "100")
    assert call("feedback", "rerank", folder, *ordered)["gain"]["low"] > 0

    trial = ("--compare", f"R={new}", "--split", "A:50,R:50", "--feedback", folder)
    service = start_service(first, "--name", "A", *trial, "--budget-ms", "20000")
    visit(service, IN_TRIAL, LEARNT_FROM)
    assert service.stop() == 0
    days_ago(folder, 1)
    [_, compared] = call("feedback", "compare", folder)["trials"]
    assert (compared["kind"], compared["winner"]) == ("split", "R")
    shares = [arm["taken"] / arm["shown"] for arm in (compared["first"], compared["second"])]
    assert shares[1] > 1.2 * shares[0]
    assert call("feedback", "guard", folder, "--model", new)["enabled"]
    _nightly_job(start_service, folder, tmp_path)


def _nightly_job(start_service: ServiceStarter, folder: Path, tmp_path: Path) -> None:
    """The first day's log makes a model; the second is added at night and the service reloads."""
    two_days, yesterday = (
        sorted(folder.glob(f"*{(datetime.now(UTC) - timedelta(days=days)).date()}*.ndjson"))
        for days in (2, 1)
    )
    data, model = tmp_path / "data", tmp_path / "nightly"
    common = ("--format", "ubi", "--no-spelling", "--min-users", "2")
    logs = [file for file in two_days if "lists" not in file.name]
    call("prepare", *logs, "--out", data, *common)
    call("fit", data, "--kind", "adjacency", "--out", model)
    key = new_key("night")
    service = start_service(model, NEXTQUERY_ADMIN_KEYS=key.line)
    before = service.get("/v1/models").json()["models"][0]["version"]
    call("update", data, *[file for file in yesterday if "lists" not in file.name])
    call("fit", data, "--kind", "adjacency", "--out", model)
    answer = service.post("/admin/reload", None, **{"X-Admin-Key": key.key})
    assert answer.status_code < 300, answer.text
    service.wait_until(lambda: service.get("/v1/models").json()["models"][0]["version"] != before)
    known = len(load(model).background.counts)  # type: ignore[attr-defined]
    assert known == QUERIES, "every query was typed by two visitors"
    forgotten = call("forget", data, "--user", "visitor-9", "--model", model)
    assert (forgotten["users_removed"], forgotten["models_forgotten_since"][str(model)]) == (1, 1)

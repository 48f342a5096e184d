"""The loop closes: visitors of known preferences, lists, feedback, report, trial, re-ranker, guard.

Commands as people run them over files as the service writes them; only HTTP is left out (the lists
are made by the models' folders, as `tests/unit/service/test_trials.py` holds for the service).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import run_command
from tests.simulated_visitors import SimulatedService, simulate
from tests.unit.feedback.made_up import VISITORS, acceptance, attraction, chance_sessions, lister

from nextquery import load
from nextquery.artifacts import MANIFEST, sha256
from nextquery.service.feedback import FeedbackLog
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

LEARNT_FROM = 2000
"""Visitors before the re-ranker is made: 4,000 impressions."""
IN_TRIAL = 1500


def call(*arguments: str | Path) -> Any:
    return json.loads(run_command("feedback", *arguments, "--json"))


@pytest.fixture
def base(prepared: Any, tiny_log: Any, tmp_path: Path) -> Path:
    """A model of a log in which followers are by chance: independent of what attracts."""
    fit_model(Adjacency, prepared(tiny_log(chance_sessions()))).save(tmp_path / "base")
    return tmp_path / "base"


def visit(log: FeedbackLog, service: SimulatedService, number: int, first: int) -> None:
    for event in simulate(VISITORS, service, number, np.random.default_rng(first + 1), first):
        log.append(event)


@pytest.mark.slow
def test_a_reranker_learnt_from_feedback_raises_acceptance(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "feedback"
    log = FeedbackLog(folder)
    old = lister(base)
    turned: Callable[[tuple[str, ...]], Any] = lambda session: old(session)[::-1]  # noqa: E731
    visit(log, SimulatedService({"A": old, "B": turned}, "interleave"), LEARNT_FROM, 0)

    report = call("report", folder, "--out", tmp_path / "report", "--per-origin", "0")
    assert report["lists"]["shown"] == 2 * LEARNT_FROM
    true = (acceptance(old) + acceptance(turned)) / 2
    assert report["lists"]["low"] - 0.03 < true < report["lists"]["high"] + 0.03
    examined = [position["examined"] for position in report["position_bias"]["positions"]]
    assert examined == sorted(examined, reverse=True)

    [trial] = call("compare", folder)["trials"]
    assert trial["winner"] is None, "a list and the same turned round are as good here"

    new = tmp_path / "reranked"
    learnt = call(
        "rerank", folder, "--base", base, "--name", "A", "--out", new, "--min-taken", "200"
    )
    assert learnt["gain"]["low"] > 0
    assert acceptance(lister(new)) > 1.1 * acceptance(old)

    versions = {"R": sha256(new / MANIFEST)[:12]}
    service = SimulatedService({"A": old, "R": lister(new)}, "split", versions)
    visit(log, service, IN_TRIAL, LEARNT_FROM)
    [_, trial] = call("compare", folder)["trials"]
    assert (trial["winner"], trial["kind"]) == ("R", "split")
    shares = [arm["taken"] / arm["shown"] for arm in (trial["first"], trial["second"])]
    assert shares[1] > 1.1 * shares[0]
    assert call("guard", folder, "--model", new)["enabled"]


@pytest.mark.slow
def test_a_reranker_that_visitors_accept_less_is_switched_off(base: Path, tmp_path: Path) -> None:
    """Preferences that changed since: what the re-ranker shows is now what attracts least."""
    folder, new = tmp_path / "feedback", tmp_path / "reranked"
    log = FeedbackLog(folder)
    old = lister(base)
    turned: Callable[[tuple[str, ...]], Any] = lambda session: old(session)[::-1]  # noqa: E731
    visit(log, SimulatedService({"A": old, "B": turned}, "interleave"), 1000, 0)
    call("rerank", folder, "--base", base, "--name", "A", "--out", new, "--min-taken", "200")

    def worse(session: tuple[str, ...]) -> Any:
        return sorted(old(session), key=lambda item: attraction(session, item.text))[:3]

    assert acceptance(worse) < 0.8 * acceptance(old)
    versions = {"R": sha256(new / MANIFEST)[:12]}
    for day in range(6):
        service = SimulatedService({"A": old, "R": worse}, "split", versions)
        visit(log, service, 500, 2000 + 500 * day)
        if not call("guard", folder, "--model", new)["enabled"]:
            break
    else:
        pytest.fail("still on after 3,000 visitors")
    assert [item.text for item in load(new).suggest(["query 1"], 5)] == [
        item.text for item in load(base).suggest(["query 1"], 5)
    ]

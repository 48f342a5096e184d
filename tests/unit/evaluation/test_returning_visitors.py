"""Lists for returning and first-time visitors: measures by hand, and a whole run on a small log."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nextquery import fit, prepare
from nextquery.evaluation.report.tables import returning as report_tables
from nextquery.evaluation.returning import ReturningResult, measure, returning_result
from nextquery.evaluation.steps import Steps, from_json, to_json
from nextquery.guard.guard import Guard
from nextquery.ranking.cases import BackgroundCounts
from nextquery.suggesters.returning import (
    FEATURES,
    PastQuery,
    Regression,
    Returning,
    ReturningSettings,
)
from nextquery.suggesters.returning_fit import PastRequest


def request(user: str, next_query: str, *history: str) -> PastRequest:
    past = tuple(PastQuery(text, 100.0 - back, 1) for back, text in enumerate(history))
    return PastRequest(user, ("now",), next_query, 200.0, past, bool(history), True)


def measured(requests: Sequence[PastRequest], lists: Sequence[Sequence[str]]) -> ReturningResult:
    """With a model that finds the most recent queries likeliest, and the first of them likely."""
    weights = np.zeros(len(FEATURES) + 1)
    weights[FEATURES.index("rank")] = -2.0
    weights[-1] = 0.5
    model = Returning(Regression(weights), 0.3, ReturningSettings(), Guard())
    measures = measure(model, requests, {"sys": lists}, {"popular"})
    return ReturningResult({"test: returning": measures}, 0.3)


def test_measures_by_hand() -> None:
    requests = [
        request("ann", "b", "a", "b", "c", "d"),
        request("ann", "popular", "a", "b", "c"),
        request("bob", "x", "now", "x"),
        request("cy", "z"),
    ]
    lists = [["p", "b"], ["popular"], ["q1", "q2", "q3", "q4", "q5", "x"], []]
    measures = measured(requests, lists).visitors["test: returning"]
    assert (measures.requests, measures.users) == (4, 3)
    assert measures.next_query_typed_before == pytest.approx(2 / 4)
    again, rule = measures.again, measures.last_three
    # .62 for the first is above .3, and .18 for the second above a quarter of it; .03 is not:
    # two queries for ann, one for bob, none without a history.
    assert again.shown.value == pytest.approx(3 / 4)
    assert again.lists.hit.value == pytest.approx(2 / 4)
    assert again.lists.mrr.value == pytest.approx((1 / 2 + 1) / 4)
    assert again.precision is not None
    assert again.precision.value == pytest.approx(2 / 5)
    assert again.precision_when_shown is not None
    assert again.precision_when_shown.value == pytest.approx(2 / 3)
    assert rule.precision is not None
    assert rule.precision.value == pytest.approx(2 / 7)  # three, three and one: never the last
    ratio = measures.precision_ratio
    assert ratio is not None
    assert ratio.value == pytest.approx((2 / 5) / (2 / 7))
    assert ratio.low <= ratio.value <= ratio.high
    alone, shown = measures.lists["sys"], measures.shown["sys"]
    assert alone.hit_5.value == pytest.approx(2 / 4)
    assert alone.hit_10.value == pytest.approx(3 / 4)
    assert shown.hit.value == pytest.approx(3 / 4)
    assert shown.mrr.value == pytest.approx((1 / 2 + 1 + 1 / 6) / 4)
    assert alone.informational_mrr is not None
    assert alone.informational_mrr.value == pytest.approx((1 / 2 + 1 / 6) / 3)
    assert alone.hit_5.low <= alone.hit_5.value <= alone.hit_5.high


def test_a_whole_run_on_a_log_with_habits(tmp_path: Path, steps: Steps) -> None:
    draw = random.Random(1)
    rows = []
    for user in range(60):
        for visit in range(20):
            time = datetime(2024, 1, 1) + timedelta(days=3 * visit, minutes=draw.randrange(3000))
            pair = ["news", f"blog {user}"] if draw.random() < 0.5 else ["mail", f"bank {user % 7}"]
            for minute, query in enumerate([f"thing {draw.randrange(9)}", *pair]):
                moment = (time + timedelta(minutes=minute)).isoformat(" ")
                rows.append({"user": f"u{user}", "time": moment, "query": query, "click": "x"})
    data = prepare(pl.DataFrame(rows), tmp_path / "data", spelling=False, holdout_users=0.2)
    systems = {"adj": fit(data, "adjacency")}
    result = returning_result(data, systems, BackgroundCounts.read(data), 200, 0, steps)
    assert set(result.visitors) >= {"test: returning", "unseen_users: returning"}
    for measures in result.visitors.values():
        assert measures.again.lists.hit.value <= measures.next_query_typed_before + 1e-9
        assert measures.shown["adj"].hit.value >= measures.lists["adj"].hit_5.value
    returning = result.visitors["test: returning"]
    assert returning.again.lists.hit_1.value > 2 * returning.last_three.lists.hit_1.value
    assert returning.shown["adj"].hit.value > returning.lists["adj"].hit_10.value + 0.2
    first = result.visitors["unseen_users: first-time"]
    assert first.again.lists.hit.value <= first.lists["adj"].hit_10.value + 0.2
    assert from_json(ReturningResult, to_json(result)) == result
    page = report_tables(result)
    assert "last three distinct queries" in page
    assert "Users kept aside, returning visitors" in page
    assert first.requests < 30
    assert f"first-time visitors ({first.requests} requests" in page
    assert "too few to measure" in page


def test_a_log_without_returning_visitors_says_so(tmp_path: Path, steps: Steps) -> None:
    rows = [
        {"user": f"u{n // 2}", "time": (datetime(2024, 1, 1) + timedelta(minutes=40 * (n // 2) + n))
         .isoformat(" "), "query": f"q {n}", "click": "x"}
        for n in range(400)
    ]  # fmt: skip
    data = prepare(pl.DataFrame(rows), tmp_path / "data", spelling=False, min_users=1)
    result = returning_result(data, {}, BackgroundCounts.read(data), 20, 0, steps)
    assert result.visitors == {}
    assert "typed before" in str(result.too_few)

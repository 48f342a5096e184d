"""Trends on logs that have them and on logs that have none."""

import random
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from nextquery.errors import InputError
from nextquery.logs.trends import TrendSettings, at_least, find_trends, step_up

QUERIES = [f"query {letter}" for letter in "abcdefghij"]


def _log(rising: str | None, seed: int, users: int = 900) -> tuple[list[Any], list[int]]:
    """Sessions of two queries on 35 days; lately half of all users also type `rising`."""
    draw = random.Random(seed)
    sessions, days = [], []
    for user in range(users):
        day = draw.randrange(35)
        first, second = draw.sample(QUERIES, 2)
        if rising and day >= 28 and draw.random() < 0.5:
            second = rising
        sessions.append((f"u{user}", [first, second]))
        days.append(day)
    return sessions, days


def test_what_rises_is_found_and_nothing_else(prepared: Any, tiny_log: Any) -> None:
    sessions, days = _log("query j", 1)
    report = find_trends(prepared(tiny_log(sessions, days=days, min_users=3)))
    assert [trend.query for trend in report.trends] == ["query j"]
    trend = report.trends[0]
    assert trend.growth > 2
    assert trend.p <= trend.q < 0.001
    assert report.queries_tested == 10


def test_a_log_in_which_nothing_rises_names_few(prepared: Any, tiny_log: Any) -> None:
    named = 0
    for seed in range(20):
        sessions, days = _log(None, seed)
        named += bool(find_trends(prepared(tiny_log(sessions, days=days, min_users=3))).trends)
    # With a rate of 5% one log in twenty may name something.
    assert named <= 4


def test_one_user_makes_no_trend(prepared: Any, tiny_log: Any) -> None:
    sessions, days = _log(None, 3)
    sessions += [("loud", ["spam", "spam again"])] * 60
    days += [28 + n % 7 for n in range(60)]
    report = find_trends(prepared(tiny_log(sessions, days=days, min_users=3)))
    assert not [trend for trend in report.trends if "spam" in trend.query]
    few = replace(TrendSettings(), min_users=1)
    again = find_trends(prepared(tiny_log(sessions, days=days, min_users=3)), few)
    assert not [trend for trend in again.trends if "spam" in trend.query]


@pytest.mark.parametrize(("seen", "of", "chance"), [(0, 5, 0.2), (5, 5, 0.2), (40, 90, 0.3)])
def test_tails_are_those_of_the_binomial_distribution(seen: int, of: int, chance: float) -> None:
    assert at_least(seen, of, chance) == pytest.approx(stats.binom.sf(seen - 1, of, chance))


def test_adjusted_values_are_those_of_scipy() -> None:
    p = [0.001, 0.2, 0.03, 0.04, 0.9, 0.04]
    assert step_up(p) == pytest.approx(list(stats.false_discovery_control(p)))


@pytest.mark.parametrize(
    "wrong", [{"days": 0}, {"past_days": 0}, {"rate": 0.0}, {"rate": 1.0}, {"min_users": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        TrendSettings(**wrong)

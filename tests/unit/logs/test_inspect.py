"""Facts, advice and trends of a prepared log."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy import stats

from nextquery.errors import InputError, LogError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.inspect import (
    Lengths,
    LogFacts,
    Repetition,
    advise,
    describe,
    dominance,
    emptiness,
    has_clicks,
)
from nextquery.logs.prepare import prepare
from nextquery.logs.privacy import pseudonym
from nextquery.logs.settings import PrepareSettings, ReadSettings, TrendSettings
from nextquery.logs.trends import at_least, find_trends, step_up

from .conftest import write_aol

SESSIONS_BY_DAY = {
    "2024-01-01": ["a b", "a b c a", "d a", "a b c d e", "x", "b"],
    "2024-02-01": ["a b", "x a y"],
    "2024-03-01": ["b c"],
    "2024-04-01": ["z y x w v"],
}
"""The sessions of a day, each of a user of its own, one letter per query."""


@pytest.fixture
def counted_data(tmp_path: Path) -> PreparedData:
    rows, user = [], 0
    for day, sessions in SESSIONS_BY_DAY.items():
        for queries in sessions:
            user += 1
            for minute, query in enumerate(queries.split(), 1):
                rows.append((user, query, f"{day} 00:0{minute}:00"))
    log = write_aol(tmp_path / "log.tsv", rows)
    settings = PrepareSettings(
        read=ReadSettings("aol"),
        split_at="2024-02-01,2024-03-01,2024-04-01",
        min_users=1,
        spelling=False,
    )
    prepare([log], tmp_path / "data", settings)
    return PreparedData(tmp_path / "data")


def test_facts(counted_data: PreparedData) -> None:
    facts = describe(counted_data, frequent=2)
    assert facts.counts["sessions"] == {"background": 4, "training": 2, "validation": 1, "test": 1}
    assert facts.lengths["background"] == Lengths(short=0.5, medium=0.25, long=0.25)
    assert facts.lengths["training"] == Lengths(short=0.5, medium=0.5, long=0)
    assert facts.counts["single_query_sessions"]["background"] == 2
    # 15 background searches: a five times, b four, c twice, d twice, e and x once
    assert facts.repetition.repeated_in_background == pytest.approx(13 / 15)
    assert facts.repetition.seen_before["training"] == pytest.approx(4 / 5)
    assert facts.repetition.sessions_with_a_return == 0.25
    # Followers of the anchors in the background: a has b; x, b and w have none or few.
    assert facts.anchors_with_followers["training"] == {20: 0.0, 5: 0.0}
    assert facts.frequent_queries == (("a", 5, 4), ("b", 4, 4))


SESSIONS = [(f"u{n}", ["red shoes", "red boots"]) for n in range(5)]


def log_facts(background: int, test: int, known: float) -> LogFacts:
    counts = {"sessions": {"background": background, "test": test}}
    return LogFacts(counts, {}, Repetition(0.5, {"test": known}, 0.1), {}, ())


@pytest.fixture
def data(prepared: Callable[[Any], PreparedData], tiny_log: Any) -> PreparedData:
    return prepared(tiny_log(SESSIONS, min_users=2))


def advice_text(data: PreparedData, facts: LogFacts) -> str:
    return " ".join(f"{item.text} {item.command}" for item in advise(data, facts))


def test_a_large_log_is_advised_to_train_and_a_small_one_to_grow(data: PreparedData) -> None:
    large = advice_text(data, log_facts(100_000, 10_000, 0.6))
    assert "--config small" in large
    assert "too few" not in large
    small = advice_text(data, log_facts(300, 20, 0.02))
    assert "20 test sessions are too few" in small
    assert "--config tiny" in small


def test_a_log_without_clicks_gets_shortcuts_that_need_none(
    data: PreparedData, prepared: Callable[[Any], PreparedData], tiny_log: Any
) -> None:
    assert not has_clicks(data)
    assert "The log has no clicks" in advice_text(data, log_facts(300, 20, 0.5))
    clicked = prepared(tiny_log(SESSIONS, clicks=[("u1", "red boots", "http://a")]))
    assert has_clicks(clicked)
    assert "The log has no clicks" not in advice_text(clicked, log_facts(300, 20, 0.5))


ALONE = [(f"v{n}", [f"query {n}", f"other {n}"]) for n in range(40)]
PAIRS = [(f"w{n}", ["blue hats", "blue caps"]) for n in range(2)]


@pytest.mark.parametrize(
    ("sessions", "min_users", "expected"),
    [
        ([("one", ["a", "b"])], 3, "No query was typed by 3 users: .* It would be 100.0% with "),
        ([*SESSIONS, *ALONE], 1, None),
        # 10 of 90 searches; with K = 2 the same, with K = 1 all.
        (
            [*SESSIONS, *ALONE],
            3,
            "Only 11.1% of the background's searches .* 3 users typed.* "
            "It would be 100.0% with `min_users=1`; ",
        ),
        # 10 of 94, 14 of 94, all
        ([*SESSIONS, *ALONE, *PAIRS], 3, "It would be 14.9% with `min_users=2`, 100.0% with"),
    ],
)
def test_a_lower_k_is_advised_only_with_what_it_would_change(
    prepared: Any, tiny_log: Any, sessions: Any, min_users: int, expected: str | None
) -> None:
    result = list(emptiness(prepared(tiny_log(sessions, min_users=min_users))))
    if expected is None:
        assert not result
    else:
        assert re.search(expected, result[0].text)


def dominated(folder: Path, **settings: Any) -> PreparedData:
    """60 visitors with three searches each, and a shared address with more than all of them."""
    rows = [
        (f"u{n}", query, f"2024-01-{1 + n % 28:02} 10:{minute}:00")
        for n in range(60)
        for minute, query in enumerate(["shoes", "boots", "search" if n < 5 else "hats"], 10)
    ]
    rows += [
        ("10.0.0.1", "search" if n % 2 else f"shoes {n}", f"2024-01-{1 + n % 28:02} 12:00:00")
        for n in range(200)
    ]
    chosen = PrepareSettings(**{"spelling": False, **settings})
    prepare([write_aol(folder / "log.tsv", rows)], folder / "data", chosen)
    return PreparedData(folder / "data")


def test_a_visitor_who_would_decide_the_lists_is_named_with_what_to_do(tmp_path: Path) -> None:
    shared = f"pseudonym:{pseudonym('10.0.0.1')}"
    visitor, query = (item.text for item in dominance(dominated(tmp_path)))
    assert visitor.startswith("One visitor has 52.6% of the rows (200; the mean is 6.2)")
    assert shared in visitor
    assert "`exclude_users`" in visitor
    assert query.startswith(
        "The query 'search' looks like the label of a search box: 105 rows of 6 users, "
        "100 of them by one visitor"
    )
    assert "`where=Query!=search`" in query


@pytest.mark.parametrize("name", ["10.0.0.1", f"pseudonym:{pseudonym('10.0.0.1')}"])
def test_an_excluded_visitor_does_not_count(tmp_path: Path, name: str) -> None:
    data = dominated(tmp_path, exclude_users=(name,))
    counts = data.artifact.entry("counts")
    assert counts["excluded"] == {"users": 1, "rows": 200}
    assert data.artifact.entry("settings")["exclude_users"] == [
        f"pseudonym:{pseudonym('10.0.0.1')}"
    ]
    assert not data.search_rows("background").filter(pl.col("query") == "shoes 0").collect().height
    assert "One visitor has" not in "".join(item.text for item in dominance(data))


def test_a_user_column_that_is_unique_per_row_is_named(tmp_path: Path) -> None:
    rows = [(f"u{n}", "shoes", f"2024-01-{1 + n % 28:02} 10:00:00") for n in range(150)]
    log = write_aol(tmp_path / "log.tsv", rows)
    with pytest.raises(LogError, match="nearly every row has a user of its own; choose the column"):
        prepare([log], tmp_path / "data", PrepareSettings())
    few = [(f"w{n % 2}", f"shoes {n}", f"2024-01-01 10:1{n}:00") for n in range(4)]
    write_aol(log, [*rows, *few])
    prepare([log], tmp_path / "data", PrepareSettings(spelling=False))
    (advice,) = dominance(PreparedData(tmp_path / "data"))
    assert advice.text.startswith("152 users in 154 rows: nearly every row has a user of its own")


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
    for seed in range(10):
        sessions, days = _log(None, seed)
        named += bool(find_trends(prepared(tiny_log(sessions, days=days, min_users=3))).trends)
    # With a rate of 5%, three of ten logs would be too many by far.
    assert named <= 2


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

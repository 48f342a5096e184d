from collections.abc import Callable
from typing import Any

import pytest

from nextquery.logs.data_folder import PreparedData
from nextquery.logs.inspect import LogFacts, Repetition, advise, emptiness, has_clicks

SESSIONS = [(f"u{n}", ["red shoes", "red boots"]) for n in range(5)]


def facts(background: int, test: int, known: float) -> LogFacts:
    counts = {"sessions": {"background": background, "test": test}}
    return LogFacts(counts, {}, Repetition(0.5, {"test": known}, 0.1), {}, ())


@pytest.fixture
def data(prepared: Callable[[Any], PreparedData], tiny_log: Any) -> PreparedData:
    return prepared(tiny_log(SESSIONS, min_users=2))


def told(data: PreparedData, found: LogFacts) -> str:
    return " ".join(f"{item.text} {item.command}" for item in advise(data, found))


def test_a_large_log_is_advised_to_train(data: PreparedData) -> None:
    text = told(data, facts(100_000, 10_000, 0.6))
    assert "--config small" in text
    assert "too few" not in text
    assert "min_users" not in text


def test_a_small_log_is_told_what_it_lacks(data: PreparedData) -> None:
    text = told(data, facts(300, 20, 0.02))
    assert "20 test sessions are too few" in text
    assert "Only 2.0% of later queries" in text
    assert "--config tiny" in text


def test_a_log_without_clicks_gets_shortcuts_that_need_none(
    data: PreparedData, prepared: Callable[[Any], PreparedData], tiny_log: Any
) -> None:
    assert not has_clicks(data)
    assert "The log has no clicks" in told(data, facts(300, 20, 0.5))
    clicked = prepared(tiny_log(SESSIONS, clicks=[("u1", "red boots", "http://a")]))
    assert has_clicks(clicked)
    assert "The log has no clicks" not in told(clicked, facts(300, 20, 0.5))


def test_nothing_left_of_a_log_is_said_first(
    prepared: Callable[[Any], PreparedData], tiny_log: Any
) -> None:
    empty = prepared(tiny_log([("one", ["a", "b"])], min_users=3))
    assert advise(empty, facts(1, 0, 0.0))[0].text.startswith("No query was typed by 3 users")


def test_a_model_of_a_log_that_hardly_repeats_is_nearly_empty(
    prepared: Callable[[Any], PreparedData], tiny_log: Any, data: PreparedData
) -> None:
    alone = [(f"v{n}", [f"query {n}", f"other {n}"]) for n in range(40)]
    [advice] = emptiness(prepared(tiny_log([*SESSIONS, *alone], min_users=2)))

    assert advice.text.startswith("Only 11.1% of the background's queries are known")
    assert list(emptiness(data)) == []

"""Frequencies as they are, or weighed by their age."""

from typing import Any

import pytest

from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity, PopularitySettings

SESSIONS = [("u1", ["old", "old", "rare"]), ("u2", ["old"]), ("u1", ["new"]), ("u2", ["new"])]
DAYS = [0, 0, 6, 8]


def weights(model: Popularity) -> dict[str, float]:
    return {text: float(model.weights[number]) for text, number in model.background.queries.items()}


def test_counts_are_taken_as_they_are(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(Popularity, prepared(tiny_log(SESSIONS, days=DAYS)))
    assert weights(model) == {"old": 3, "new": 2, "rare": 1}


def test_old_days_weigh_less(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, days=DAYS))
    model = fit_model(Popularity, data, PopularitySettings(half_life_days=2))
    assert weights(model) == pytest.approx({"old": 3 / 16, "rare": 1 / 16, "new": 1 + 0.5})
    assert [each.text for each in model.suggest([], 3)] == ["new", "old", "rare"]


def test_what_weighs_nothing_is_not_suggested(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, days=DAYS))
    model = fit_model(Popularity, data, PopularitySettings(window_days=5))
    assert [each.text for each in model.suggest([], 3)] == ["new"]


def test_queries_of_too_few_users_have_no_weight(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, days=DAYS, min_users=2))
    model = fit_model(Popularity, data, PopularitySettings(half_life_days=2))
    assert weights(model).keys() == {"old", "new"}

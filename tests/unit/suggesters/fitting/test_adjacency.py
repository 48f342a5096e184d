"""Pairs as `prepare` counted them, and the same counted again by their age."""

from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.adjacency import Adjacency, AdjacencySettings
from nextquery.suggesters.fit import fit_model

SESSIONS = [("u1", ["a", "b"]), ("u2", ["a", "b", "c"]), ("u3", ["a", "c"])]


def followers(model: Adjacency, query: str) -> dict[str, float]:
    found = model.followers.most_frequent(model.background.queries[query], 9)
    return {model.background.text(int(q)): float(n) for q, n in zip(*found, strict=True)}


def test_pairs_are_numbered_as_they_were_counted(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(Adjacency, prepared(tiny_log(SESSIONS)))
    assert followers(model, "a") == {"b": 2, "c": 1}
    assert followers(model, "b") == {"c": 1}
    assert followers(model, "c") == {}


def test_pairs_weigh_half_after_a_half_life(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, days=[0, 2, 4]))
    model = fit_model(Adjacency, data, AdjacencySettings(half_life_days=2))
    assert followers(model, "a") == pytest.approx({"b": 0.25 + 0.5, "c": 1.0})


def test_days_outside_the_window_do_not_count(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, days=[0, 2, 4]))
    model = fit_model(Adjacency, data, AdjacencySettings(window_days=3))
    assert followers(model, "a") == {"b": 1, "c": 1}


def test_usefulness_and_age_multiply(prepared: Any, tiny_log: Any) -> None:
    clicks = [("u1", "b", "/b"), ("u2", "b", "/b")]
    data = prepared(tiny_log(SESSIONS, clicks=clicks, days=[0, 2, 4]))
    aged = followers(fit_model(Adjacency, data, AdjacencySettings(half_life_days=2)), "a")
    useful = followers(fit_model(Adjacency, data, AdjacencySettings(useful_weight=3)), "a")
    settings = AdjacencySettings(useful_weight=3, half_life_days=2)
    both = followers(fit_model(Adjacency, data, settings), "a")
    factor = {"b": useful["b"] / 2, "c": useful["c"] / 1}
    assert factor["b"] > factor["c"]
    assert both == pytest.approx({query: aged[query] * factor[query] for query in "bc"})


def test_usefulness_needs_clicks(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match="no query was clicked"):
        fit_model(Adjacency, prepared(tiny_log(SESSIONS)), AdjacencySettings(useful_weight=3))

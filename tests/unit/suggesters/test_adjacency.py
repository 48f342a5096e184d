from math import log
from typing import Any

import pytest

from nextquery.suggesters.adjacency import Adjacency, AdjacencySettings
from nextquery.suggesters.fit import fit_model

SESSIONS = [
    ("ann", ["paris", "paris hotels", "rome"]),
    ("bob", ["paris", "rome"]),
    ("cat", ["paris", "rome"]),
    ("dan", ["paris", "oslo"]),
]


@pytest.fixture
def model(prepared: Any, tiny_log: Any) -> Adjacency:
    return fit_model(Adjacency, prepared(tiny_log(SESSIONS)))


def test_followers_are_ordered_by_count_then_text(model: Adjacency) -> None:
    found = model.suggest(["rome", "Paris"], 5)
    assert [item.text for item in found] == ["oslo", "paris hotels"]  # rome is in the context
    found = model.suggest(["paris"], 5)
    assert [item.text for item in found] == ["rome", "oslo", "paris hotels"]
    # rome followed paris 2 of 4 times; its prior is 3 of 9 queries and one imagined.
    assert found[0].score == pytest.approx(log((2 + 3 / 10) / (4 + 1)))
    assert found[0].source == "seen in the log (2 times after the last query)"


def test_equal_counts_are_ordered_by_frequency(prepared: Any, tiny_log: Any) -> None:
    sessions = [("a", ["x", "abc"]), ("a", ["x", "zoo"]), ("b", ["zoo", "y"])]
    found = fit_model(Adjacency, prepared(tiny_log(sessions))).suggest(["x"])
    assert [item.text for item in found] == ["zoo", "abc"]


def test_an_unseen_anchor_loses_words_from_its_end(model: Adjacency) -> None:
    found = model.suggest(["paris hotels near opera"], 1)
    assert found[0].text == "rome"
    assert "'paris hotels'" in found[0].source
    assert "never seen" in found[0].source
    assert model.score(["paris hotels near opera"], ["rome"])[0].log_likelihood == pytest.approx(
        log((1 + 3 / 10) / 2)
    )


def test_the_seen_anchor_is_never_shortened(model: Adjacency) -> None:
    assert "never seen" not in model.suggest(["paris hotels"], 1)[0].source


def test_without_shortening_an_unseen_anchor_gives_nothing(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(Adjacency, prepared(tiny_log(SESSIONS)), AdjacencySettings(shorten=False))
    assert model.suggest(["paris hotels near opera"]) == []
    assert model.score(["paris hotels near opera"], ["rome"])[0].log_likelihood == pytest.approx(
        log(3 / 10)
    )


def test_rare_queries_are_neither_suggested_nor_anchors(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(Adjacency, prepared(tiny_log(SESSIONS, min_users=3)))
    assert [item.text for item in model.suggest(["paris"])] == ["rome"]
    assert model.suggest(["oslo"]) == []

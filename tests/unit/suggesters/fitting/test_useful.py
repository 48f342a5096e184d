from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.adjacency import Adjacency, AdjacencySettings
from nextquery.suggesters.fitting.fit import fit_model

SESSIONS = [("a", ("shoes", "boots")), ("b", ("shoes", "socks")), ("c", ("shoes", "boots"))]
WEIGHED = AdjacencySettings(useful_weight=4)


def counts(model: Adjacency) -> dict[str, int]:
    anchor = model.background.id("shoes")
    assert anchor is not None
    ids, found = model.followers.most_frequent(anchor, 9)
    return {model.background.text(query): int(n) for query, n in zip(ids, found, strict=True)}


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_useful_followers_count_for_more(prepared: Any, tiny_log: Any, engine: str) -> None:
    data = prepared(tiny_log(SESSIONS, clicks=[("b", "socks", "https://example/socks")]))
    assert counts(fit_model(Adjacency, data)) == {"boots": 2, "socks": 1}
    weighed = fit_model(Adjacency, data, WEIGHED, engine=engine)
    assert counts(weighed) == {"boots": 2, "socks": 4}
    assert [each.text for each in weighed.suggest(["shoes"], 2)] == ["socks", "boots"]


def test_what_is_typed_again_at_once_is_not_useful(prepared: Any, tiny_log: Any) -> None:
    """In the made-up data a minute lies between the queries of a session."""
    again = [*SESSIONS, ("d", ("shoes", "socks", "hats"))]
    clicks = [("d", "socks", "https://example/socks"), ("a", "boots", "https://example/boots")]
    data = prepared(tiny_log(again, clicks=clicks))
    assert counts(fit_model(Adjacency, data, WEIGHED)) == {"boots": 5, "socks": 2}


def test_a_log_without_clicks_is_refused(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match="`useful_weight`"):
        fit_model(Adjacency, prepared(tiny_log(SESSIONS)), WEIGHED)


def test_age_and_use_are_not_weighed_together(prepared: Any, tiny_log: Any) -> None:
    both = AdjacencySettings(useful_weight=4, half_life_days=7)
    data = prepared(tiny_log(SESSIONS, clicks=[("b", "socks", "https://example/socks")]))
    with pytest.raises(InputError, match="neither `half_life_days` nor `window_days`"):
        fit_model(Adjacency, data, both)

"""Useful queries count for more, in every count model and every engine."""

from typing import Any

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.suggesters.adjacency import Adjacency, AdjacencySettings
from nextquery.suggesters.count_suggester import CountSuggester
from nextquery.suggesters.fit import FITTERS, fit_model
from nextquery.suggesters.loading import count_model
from nextquery.suggesters.sequences import UsefulCounts

SESSIONS = [
    *((f"a{n}", ("shoes", "boots")) for n in range(24)),
    *((f"b{n}", ("shoes", "socks")) for n in range(20)),
]
CLICKS = [(f"b{n}", "socks", "https://example/socks") for n in range(20)]
WEIGHED = AdjacencySettings(useful_weight=4)


def counts(model: Adjacency) -> dict[str, float]:
    anchor = model.background.id("shoes")
    assert anchor is not None
    ids, found = model.followers.most_frequent(anchor, 9)
    return {model.background.text(query): float(n) for query, n in zip(ids, found, strict=True)}


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_useful_followers_count_for_more(prepared: Any, tiny_log: Any, engine: str) -> None:
    data = prepared(tiny_log(SESSIONS, clicks=CLICKS))
    assert counts(fit_model(Adjacency, data)) == {"boots": 24, "socks": 20}
    weighed = fit_model(Adjacency, data, WEIGHED, engine=engine)
    # Undecided: 1 of 2 imaginary ones. Typed 44 + 24 + 20 times, 10 of them useful.
    ordinary = 10 / 88
    boots = 24 * (1 + 3 * (0 + 10 * ordinary) / 34)
    socks = 20 * (1 + 3 * (10 + 10 * ordinary) / 30)
    assert counts(weighed) == pytest.approx({"boots": boots, "socks": socks})
    assert [each.text for each in weighed.suggest(["shoes"], 2)] == ["socks", "boots"]


@pytest.mark.parametrize("kind", [kind for kind in FITTERS if kind not in ("rescue", "cacb")])
def test_every_kind_takes_it(prepared: Any, tiny_log: Any, kind: str) -> None:
    """Boots are typed more often, socks are clicked."""
    clicked = [*CLICKS, ("a0", "boots", "https://example/boots")]
    clicked += [(f"a{n}", "shoes", "https://example/boots") for n in range(24)]
    data = prepared(tiny_log(SESSIONS, clicks=clicked))
    model_type: type[CountSuggester[Any]] = count_model(kind)
    asked = {"satisfactory": False} if kind == "shortcuts" else {}
    first = []
    for weight in (1, 20):
        settings = model_type.settings_type.model_validate({"useful_weight": weight, **asked})
        model = fit_model(model_type, data, settings)
        first.append([each.text for each in model.suggest(["shoes"], 1)])
    assert first == [["boots"], ["socks"]]


def test_concepts_are_weighed_by_all_their_queries() -> None:
    found = UsefulCounts(np.array([10.0, 20.0, 10.0]), np.array([10.0, 0.0, 10.0]))
    factors = found.factors(2, np.array([0, 0, 1]))
    assert factors == pytest.approx([1 + (10 + 5) / 40, 1 + (10 + 5) / 20])


def test_cacb_is_weighed(prepared: Any, tiny_log: Any) -> None:
    clicks = [*CLICKS, *((f"a{n}", "boots", "https://example/boots") for n in range(2))]
    data = prepared(tiny_log(SESSIONS, clicks=clicks))
    kind = count_model("cacb")
    plain, weighed = (
        fit_model(kind, data, kind.settings_type.model_validate({"useful_weight": weight}))
        for weight in (1, 20)
    )
    assert plain.suggest(["shoes"], 1)[0].text == "boots"
    assert weighed.suggest(["shoes"], 1)[0].text == "socks"


def test_rescue_is_weighed(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, clicks=CLICKS))
    kind = count_model("rescue")
    texts = []
    for weight in (1, 20):
        settings = kind.settings_type.model_validate({"useful_weight": weight})
        model = fit_model(kind, data, settings, hits=lambda query: query != "shoes")
        texts.append(model.suggest(["shoes"], 1)[0].text)
    assert texts == ["boots", "socks"]


def test_what_is_typed_again_at_once_is_not_useful(prepared: Any, tiny_log: Any) -> None:
    """In the made-up data a minute lies between the queries of a session."""
    again = [*SESSIONS, *((f"c{n}", ("boots", "hats")) for n in range(5))]
    clicks = [*CLICKS, *((f"c{n}", "boots", "https://example/boots") for n in range(5))]
    found = counts(fit_model(Adjacency, prepared(tiny_log(again, clicks=clicks)), WEIGHED))
    # Five clicked and followed, none of them useful: an undecided one is useful 1 time in 7.
    ordinary = (20 / 7) / 98
    assert found["boots"] == pytest.approx(24 * (1 + 3 * 10 * ordinary / 39))


def test_a_log_without_clicks_is_refused(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match="leave out `useful_weight`"):
        fit_model(Adjacency, prepared(tiny_log(SESSIONS)), WEIGHED)


def test_age_and_use_are_weighed_together(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, clicks=CLICKS, days=[7] * 24 + [0] * 20))
    aged = fit_model(Adjacency, data, AdjacencySettings(half_life_days=7))
    both = fit_model(Adjacency, data, AdjacencySettings(useful_weight=4, half_life_days=7))
    useful = fit_model(Adjacency, data, WEIGHED)
    assert counts(aged) == pytest.approx({"boots": 24, "socks": 10})
    assert counts(both)["socks"] == pytest.approx(counts(useful)["socks"] / 2)

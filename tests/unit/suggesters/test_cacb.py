from math import exp, log
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.cacb import CACB, CACBSettings
from nextquery.suggesters.fit import fit_model

SESSIONS = [
    ("ann", ["cheap flights", "paris hotels", "eiffel tower"]),
    ("bob", ["low cost flights", "hotels in paris", "louvre"]),
    ("cat", ["cheap flights", "hotels in paris", "eiffel tower"]),
    ("dan", ["used cars", "car loans"]),
]
CLICKS = [
    ("ann", "cheap flights", "flights.example"),
    ("bob", "low cost flights", "flights.example"),
    ("ann", "paris hotels", "hotels.example"),
    ("bob", "hotels in paris", "hotels.example"),
    ("cat", "hotels in paris", "hotels.example"),
    ("ann", "eiffel tower", "eiffel.example"),
    ("dan", "used cars", "cars.example"),
]
PLAIN = CACBSettings(pruning=0, escape=1)


@pytest.fixture
def model(prepared: Any, tiny_log: Any) -> CACB:
    return fit_model(CACB, prepared(tiny_log(SESSIONS, CLICKS)), PLAIN)


def _concept(model: CACB, query: str) -> int:
    known = model.background.id(query)
    assert known is not None
    return int(model.concepts.of_query[known])


def test_queries_with_the_same_clicks_are_one_concept(model: CACB) -> None:
    assert _concept(model, "cheap flights") == _concept(model, "low cost flights")
    assert _concept(model, "paris hotels") == _concept(model, "hotels in paris")
    assert len(model.concepts.counts) == 6  # flights, hotels, eiffel, louvre, cars, loans


def test_a_concept_is_shown_as_its_most_clicked_query(model: CACB) -> None:
    # Nobody went from low cost flights to anything but hotels in paris, twice clicked.
    (found,) = model.suggest(["low cost flights"])
    assert found.text == "hotels in paris"
    assert found.source == (
        "seen in the log (3 times after the last topic, for 2 queries of one topic)"
    )


def test_a_shown_query_is_never_one_of_the_context(model: CACB) -> None:
    found = model.suggest(["hotels in paris", "cheap flights"], 1)
    assert [item.text for item in found] == ["paris hotels"]


def test_probabilities_by_hand(model: CACB) -> None:
    # Flights are followed by hotels 3 of 3 times; hotels are 3 of 11 queries, 2 of them "in".
    hotels = (3 + 3 / 12) / (3 + 1)
    assert model.suggest(["cheap flights"])[0].score == pytest.approx(log(hotels))
    scored = model.score(["cheap flights"], ["hotels in paris", "paris hotels", "louvre"])
    assert [exp(item.log_likelihood) for item in scored] == pytest.approx(
        [hotels * 2 / 3, hotels * 1 / 3, (0 + 1 / 12) / 4]
    )


def test_the_context_decides_between_concepts(prepared: Any, tiny_log: Any) -> None:
    sessions = [
        *[("u", ["wildlife", "jaguar", "leopard"])] * 2,
        *[("u", ["dealer", "jaguar", "used cars"])] * 2,
    ]
    clicks = [("u", query, query) for query in ("wildlife", "jaguar", "leopard")]
    model = fit_model(CACB, prepared(tiny_log(sessions, clicks)), PLAIN)
    assert model.suggest(["wildlife", "jaguar"], 1)[0].text == "leopard"
    assert model.suggest(["dealer", "jaguar"], 1)[0].text == "used cars"


def test_repeats_of_a_concept_count_once(prepared: Any, tiny_log: Any) -> None:
    sessions = [("u", ["cheap flights", "low cost flights", "paris hotels"])]
    model = fit_model(CACB, prepared(tiny_log(sessions, CLICKS[:2])), PLAIN)
    # The context is one topic, however many of its queries were typed.
    (found,) = model.suggest(["low cost flights", "cheap flights"])
    assert found.text == "paris hotels"
    assert "after the last topic" in found.source


def test_a_log_without_clicks_says_so_and_offers_words(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS))
    with pytest.raises(InputError, match=r"no clicks.*`clusters=words`"):
        fit_model(CACB, data)
    model = fit_model(CACB, data, CACBSettings(clusters="words", diameter=1.2))
    assert _concept(model, "cheap flights") == _concept(model, "low cost flights")
    assert _concept(model, "cheap flights") != _concept(model, "used cars")
    assert model.suggest(["low cost flights"])[0].text == "hotels in paris"


def test_probabilities_sum_to_at_most_one(model: CACB) -> None:
    known = sorted({query for _, queries in SESSIONS for query in queries})
    for context in ([], ["cheap flights"], ["cheap flights", "paris hotels"], ["zyzzyva"]):
        scored = model.score(context, [*known, "zyzzyva", "cheap"])
        assert 0.5 < sum(exp(item.log_likelihood) for item in scored) <= 1

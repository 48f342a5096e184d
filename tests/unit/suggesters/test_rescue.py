"""Rescue by hand: three sessions that found nothing, and one that did."""

from math import log
from pathlib import Path
from typing import Any

import pytest

from nextquery import load
from nextquery.errors import InputError
from nextquery.guard.guard import TitleHits
from nextquery.records import Suggestion
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.rescue import Rescue, RescueSettings, rescued

SESSIONS = [
    ("u1", ["paris hotles", "paris hotels"]),
    ("u2", ["paris hotles", "hotles", "paris hotels", "rome"]),
    ("u3", ["paris hotles", "rome"]),
    ("u4", ["paris hotels", "rome"]),
    ("u5", ["zebra crosing"]),
]
TITLES = TitleHits(["Paris hotels", "Rome"])


@pytest.fixture
def rescue(prepared: Any, tiny_log: Any, tmp_path: Path) -> Rescue:
    fit_model(Rescue, prepared(tiny_log(SESSIONS)), hits=TITLES).save(tmp_path / "rescue")
    model = load(tmp_path / "rescue")
    assert isinstance(model, Rescue)
    return model


def texts(found: list[Suggestion]) -> list[str]:
    return [each.text for each in found]


def test_the_first_query_that_found_something_counts(rescue: Rescue) -> None:
    found = rescue.suggest(["london", "Paris hotles!"], 5)
    assert texts(found) == ["paris hotels", "rome"]
    # u1 and u2 went on to "paris hotels", u2 by way of another query that found nothing
    assert found[0].source == "people who found nothing then searched for this (2 times)"
    assert found[1].source == "people who found nothing then searched for this (1 time)"
    prior = 3 / 12  # "paris hotels" is 3 of 11 queries
    assert found[0].score == pytest.approx(log((2 + prior) / (3 + 1)))


def test_a_query_that_finds_something_has_no_list(rescue: Rescue) -> None:
    assert rescue.suggest(["paris hotels"], 5) == []
    assert rescue.suggest([], 5) == []
    assert rescue.suggest(["zebra crosing"], 5) == []  # nobody went on to anything
    assert [rescue.fails(text) for text in ("paris hotles", "hotles", "rome", "zebra crosing")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_query_that_nobody_typed_is_answered_by_those_like_it(rescue: Rescue) -> None:
    found = rescue.suggest(["paris hottles"], 5)
    assert texts(found)[0] == "paris hotels"
    assert rescue.suggest(["quantum physics"], 5) == []
    strict = Rescue(
        RescueSettings(similar=0),
        rescue.background,
        rescue.followers,
        rescue.names,
        rescue.trigrams,
    )
    assert strict.suggest(["paris hottles"], 5) == []


def test_without_a_check_a_query_that_was_never_clicked_on_found_nothing(
    prepared: Any, tiny_log: Any
) -> None:
    clicks = [("u1", "paris hotels", "a.com"), ("u2", "rome", "b.com")]
    model = fit_model(Rescue, prepared(tiny_log(SESSIONS, clicks=clicks)))
    assert texts(model.suggest(["paris hotles"], 5)) == ["paris hotels", "rome"]
    assert not model.fails("rome")


def test_every_text_has_a_probability(rescue: Rescue) -> None:
    for context in ([], ["paris hotles"], ["paris hottles"], ["rome"]):
        scored = rescue.score(context, ["paris hotels", "rome", "never typed"])
        assert all(each.log_likelihood < 0 for each in scored)


def test_the_rescue_leads_and_nothing_comes_twice() -> None:
    own = [Suggestion(text, 0.0, "") for text in ("a", "b", "c")]
    lead = [Suggestion(text, 0.0, "people") for text in ("c", "d")]
    assert texts(rescued(own, lead, 4)) == ["c", "d", "a", "b"]
    assert texts(rescued(own, [], 2)) == ["a", "b"]


def test_only_rescue_asks_what_finds_something(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match="`hits`: adjacency does not ask"):
        fit_model(Adjacency, prepared(tiny_log(SESSIONS)), hits=TITLES)

"""Concepts by clicks or by words, and sequences of them."""

from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.cacb import CACB, CACBSettings
from nextquery.suggesters.fit import fit_model

SESSIONS = [
    ("u1", ["red shoes", "boots"]),
    ("u2", ["crimson footwear", "red shoes", "boots"]),
    ("u3", ["boots", "red shoes"]),
]
CLICKS = [("u1", "red shoes", "/shoes")] * 2 + [("u2", "crimson footwear", "/shoes")]


def concept(model: CACB, query: str) -> int:
    return int(model.concepts.of_query[model.background.queries[query]])


def test_queries_that_lead_to_the_same_page_are_one_concept(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(CACB, prepared(tiny_log(SESSIONS, clicks=CLICKS)))
    assert concept(model, "red shoes") == concept(model, "crimson footwear")
    assert concept(model, "boots") != concept(model, "red shoes")
    counts = model.concepts.counts[[concept(model, "red shoes"), concept(model, "boots")]]
    assert counts.tolist() == [4, 3]


def test_by_words_only_shared_words_count(prepared: Any, tiny_log: Any) -> None:
    sessions = [*SESSIONS, ("u4", ["shoes red"])]
    model = fit_model(CACB, prepared(tiny_log(sessions)), CACBSettings(clusters="words"))
    assert concept(model, "red shoes") == concept(model, "shoes red")
    assert concept(model, "red shoes") != concept(model, "crimson footwear")


def test_a_log_without_clicks_says_how_to_do_without(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match=r"no clicks to find concepts by; .* `clusters=words`"):
        fit_model(CACB, prepared(tiny_log(SESSIONS)), CACBSettings(clusters="clicks"))

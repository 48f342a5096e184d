"""Which queries of a ranked list are shown."""

from collections.abc import Sequence

import numpy as np

from nextquery.inference.lists import choose
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.weights import Floats
from nextquery.records import Suggestion

RANKED = [
    FinishedQuery("paris hotels", -1.0, 3),
    FinishedQuery("hotel paris", -2.0, 3),
    FinishedQuery("paris hostels", -3.0, 3),
    FinishedQuery("rome", -4.0, 2),
]


def vectors(texts: Sequence[str]) -> Floats:
    """One direction for what begins with a letter."""
    return np.array([[text[0] == "p", text[0] == "r"] for text in texts], np.float32)


def shown(n: int, **settings: object) -> list[Suggestion]:
    return choose(RANKED, n, DecodeConfig.model_validate(settings), str.upper, vectors)


def test_near_copies_take_no_place() -> None:
    assert [each.text for each in shown(2)] == ["paris hotels", "paris hostels"]
    assert [each.text for each in shown(2, fold=False)] == ["paris hotels", "hotel paris"]


def test_unlike_queries_come_first_where_diversity_counts() -> None:
    assert [each.text for each in shown(2, diversity=0.9)] == ["paris hotels", "rome"]


def test_a_suggestion_says_its_value_and_where_it_comes_from() -> None:
    assert shown(1) == [Suggestion("paris hotels", -1.0, "PARIS HOTELS")]
    specific = FinishedQuery("rome", -4.0, 2, log_prior=-6.0, bonus=3.0)
    (found,) = choose([specific], 1, DecodeConfig(length_normalised=True), str, vectors)
    assert (found.score, found.log_likelihood, found.log_prior) == (-0.5, -4.0, -6.0)

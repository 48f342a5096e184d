"""Records are values: equal by their contents, and nobody changes one."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from nextquery.records import Neighbour, QueryWeight, ScoredQuery, Session, Suggestion

RECORDS: list[Callable[[], Any]] = [
    lambda: Suggestion("red boots", -1.0, "seen"),
    lambda: ScoredQuery("red boots", -1.0, 3, ()),
    lambda: Neighbour("red boots", 0.5),
    lambda: QueryWeight("red boots", 0.5, 0.25),
]


@pytest.mark.parametrize("make", RECORDS)
def test_a_record_is_a_value(make: Callable[[], Any]) -> None:
    one, other = make(), make()
    assert one == other
    name = next(iter(one.__dataclass_fields__))
    with pytest.raises(FrozenInstanceError):
        setattr(one, name, "changed")


def test_a_suggestion_without_a_likelihood_says_so() -> None:
    found = Suggestion("red boots", 1.0, "seen")
    assert (found.log_likelihood, found.log_prior) == (None, None)


def test_two_sessions_of_the_same_queries_are_two_by_their_ids() -> None:
    assert Session(1, "u", ("a", "b")) != Session(2, "u", ("a", "b"))

"""Horizontal or orthogonal: what a suggestion does to the last query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.inference.lists import GROUPS, Relation, group, relation

TEXTS = st.lists(st.sampled_from(["paris", "hotel", "map", "rome", "the", "maps"]), max_size=4).map(
    " ".join
)


@pytest.mark.parametrize(
    ("suggestion", "expected"),
    [
        ("paris hotels cheap", Relation.ADDS),
        ("Paris", Relation.DROPS),
        ("rome hotels", Relation.REPLACES),
        ("the hotel of paris", Relation.SAME),
        ("museum", Relation.NEW),
        ("", Relation.NEW),
    ],
)
def test_each_relation(suggestion: str, expected: Relation) -> None:
    assert relation("paris hotels", suggestion) is expected


@given(TEXTS, TEXTS)
def test_turned_around_adding_is_dropping(one: str, other: str) -> None:
    turned = {Relation.ADDS: Relation.DROPS, Relation.DROPS: Relation.ADDS}
    found = relation(one, other)
    assert relation(other, one) is turned.get(found, found)
    assert found.horizontal == (found in turned)


def test_groups_follow_the_last_query_only() -> None:
    context = ["rome map", "paris hotels"]
    texts = ["paris hotels map", "paris", "rome map hotel", "rome map"]
    assert [group(context, text) for text in texts] == [
        "refine",
        "related",
        "related",
        "next step",
    ]
    assert group([], "paris") == "next step"
    assert set(GROUPS) == set(Relation)

"""Ranking cases, their candidates and the folds of users."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.ranking.cases import (
    BackgroundCounts,
    Backgrounds,
    CaseSet,
    RankingCase,
    canonical_order,
    reciprocal_ranks,
    user_fold,
    user_place,
)
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model


def case(candidates: int, target: int, session: int = 1) -> RankingCase:
    texts = tuple(f"query {number}" for number in range(candidates))
    return RankingCase(session, ("anchor",), "anchor", texts, target, 2)


@pytest.mark.parametrize(
    ("cases", "scores", "ranks"),
    [
        # what scores higher is ahead, and what scores the same and comes before
        (
            [case(3, 1), case(4, 3), case(2, 0)],
            [0.5, 0.4, 0.9, 1.0, 1.0, 0.0, 1.0, 2.0, 2.0],
            [3, 3, 1],
        ),
        # missing scores come last
        ([case(3, 2)], [np.nan, -np.inf, -5.0], [1]),
        ([case(3, 2)], [-5.0, -6.0, np.nan], [3]),
        ([], [], []),
    ],
)
def test_ranks_by_hand(cases: list[RankingCase], scores: list[float], ranks: list[int]) -> None:
    assert CaseSet(cases).ranks(np.array(scores)).tolist() == ranks
    assert reciprocal_ranks(CaseSet(cases), np.array(scores)).tolist() == [1 / r for r in ranks]


def test_layout_of_flat_arrays() -> None:
    cases = CaseSet((case(3, 1), case(2, 0)))

    assert cases.starts.tolist() == [0, 3]
    assert cases.targets.tolist() == [1, 3]
    assert cases.owners.tolist() == [0, 0, 0, 1, 1]
    assert cases.rows == len(cases.texts) == 5


def test_canonical_order_is_by_frequency_then_text() -> None:
    assert canonical_order(["b", "a", "c"], [1, 1, 7]) == ("c", "a", "b")


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_ranks_equal_those_of_a_stable_sort(shapes: list[tuple[int, int]], random: object) -> None:
    cases = CaseSet(case(size, target % size) for size, target in shapes)
    scores = np.array([random.choice([0.0, 1.0, 2.0]) for _ in range(cases.rows)])  # type: ignore[attr-defined]
    ranks = cases.ranks(scores)

    for number, item in enumerate(cases.cases):
        case_scores = scores[cases.starts[number] : cases.starts[number] + cases.sizes[number]]
        order = np.argsort(-case_scores, kind="stable").tolist()
        assert ranks[number] == 1 + order.index(item.target)


def test_select_keeps_the_marked_cases() -> None:
    cases = CaseSet((case(3, 1, 10), case(2, 0, 11)))

    assert [kept.session for kept in cases.select([False, True]).cases] == [11]
    with pytest.raises(ValueError, match="zip"):
        cases.select([True])


FREQUENCIES = {"cars": 9, "red cars": 4, "old cars": 4, "buses": 5, "trains": 2}
FOLLOWERS = {"cars": {"red cars": 3, "old cars": 3, "buses": 3, "trains": 8}}


def test_candidates_beginnings_and_frequent_queries_by_hand() -> None:
    background = BackgroundCounts(FREQUENCIES, FOLLOWERS)

    # by count, then by frequency, then by text
    assert background.candidates("cars") == ("trains", "buses", "old cars", "red cars")
    assert background.candidates("cars", 2) == ("trains", "buses")
    assert background.candidates("boats") == ()
    # words are dropped from the end until a known query remains
    assert background.known_beginning("red cars for sale") == "red cars"
    assert background.known_beginning("cars red blue") == "cars"
    assert background.known_beginning("trains") == "trains"
    assert background.known_beginning("blue cars") == ""
    assert background.most_frequent(3) == [("cars", 9), ("buses", 5), ("old cars", 4)]


def test_the_count_models_have_the_same_rule_and_the_same_order(
    prepared: Any, tiny_log: Any
) -> None:
    """Two ways to keep the background, one for evaluation and one for serving: one order."""
    sessions = [("u", ("cars", follower)) for follower in ("b", "a", "c", "a", "d", "b", "e")]
    sessions += [("v", ("x", "e")), ("v", ("x", "c"))]
    data = prepared(tiny_log(sessions))
    counts, model = BackgroundCounts.read(data), fit_model(Adjacency, data)

    listed = [suggestion.text for suggestion in model.best(("cars",), 20)]
    assert counts.candidates("cars") == tuple(listed) == ("a", "b", "c", "e", "d")
    for query in ("cars for sale", "x", "nothing known"):
        known = model.background.newest_known([query], shorten=True)
        expected = "" if not known.queries else known.shortened_to or query
        assert counts.known_beginning(query) == expected


def test_each_user_sees_the_background_without_the_own_fold() -> None:
    whole = BackgroundCounts(FREQUENCIES, FOLLOWERS)
    parts = [BackgroundCounts({"cars": number}, {}) for number in range(3)]
    backgrounds = Backgrounds(whole, parts)

    for user in ("anna", "bert", "carl", "dora"):
        assert backgrounds.of(user).frequency("cars") == user_fold(user, 3)
    assert Backgrounds(whole).of("anna") is whole


USERS = [f"user {number}" for number in range(2000)]


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_are_of_like_size(folds: int) -> None:
    sizes = [sum(user_fold(user, folds) == fold for user in USERS) for fold in range(folds)]

    assert min(sizes) > 0.85 * 2000 / folds


def test_quarters_are_parts_of_halves() -> None:
    assert all(user_fold(user, 4) % 2 == user_fold(user, 2) for user in USERS)


def test_another_purpose_has_another_order() -> None:
    orders = [sorted(USERS, key=lambda user: user_place(user, name)) for name in ("a", "b")]

    assert orders[0] != orders[1]

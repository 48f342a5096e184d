import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.ranking.cases import CaseSet, RankingCase, canonical_order, reciprocal_ranks


def case(candidates: int, target: int, session: int = 1) -> RankingCase:
    texts = tuple(f"query {number}" for number in range(candidates))
    return RankingCase(session, ("anchor",), "anchor", texts, target, 2)


def test_ranks_count_what_scores_higher_and_equal_scores_before() -> None:
    cases = CaseSet((case(3, 1), case(4, 3), case(2, 0)))
    scores = np.array([0.5, 0.4, 0.9, 1.0, 1.0, 0.0, 1.0, 2.0, 2.0])

    assert cases.ranks(scores).tolist() == [3, 3, 1]
    assert reciprocal_ranks(cases, scores).tolist() == [1 / 3, 1 / 3, 1.0]


def test_missing_scores_rank_last() -> None:
    cases = CaseSet((case(3, 2),))

    assert cases.ranks(np.array([np.nan, -np.inf, -5.0])).tolist() == [1]
    assert cases.ranks(np.array([-5.0, -6.0, np.nan])).tolist() == [3]


def test_layout_of_flat_arrays() -> None:
    cases = CaseSet((case(3, 1), case(2, 0)))

    assert cases.starts.tolist() == [0, 3]
    assert cases.targets.tolist() == [1, 3]
    assert cases.owners.tolist() == [0, 0, 0, 1, 1]
    assert cases.rows == len(cases.texts) == 5


def test_no_cases_have_no_ranks() -> None:
    assert len(CaseSet(()).ranks(np.zeros(0))) == 0


def test_canonical_order_is_by_frequency_then_text() -> None:
    assert canonical_order(["b", "a", "c"], [1, 1, 7]) == ("c", "a", "b")


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_ranks_equal_those_of_a_stable_sort(shapes: list[tuple[int, int]], random: object) -> None:
    cases = CaseSet(tuple(case(size, target % size) for size, target in shapes))
    scores = np.array([random.choice([0.0, 1.0, 2.0]) for _ in range(cases.rows)])  # type: ignore[attr-defined]
    ranks = cases.ranks(scores)

    for number, item in enumerate(cases.cases):
        own = scores[cases.starts[number] : cases.starts[number] + cases.sizes[number]]
        order = np.argsort(-own, kind="stable").tolist()
        assert ranks[number] == 1 + order.index(item.target)


def test_select_keeps_the_marked_cases() -> None:
    cases = CaseSet((case(3, 1, 10), case(2, 0, 11)))

    assert [kept.session for kept in cases.select([False, True]).cases] == [11]
    with pytest.raises(ValueError, match="zip"):
        cases.select([True])

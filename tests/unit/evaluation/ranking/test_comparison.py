import numpy as np
import pytest

from nextquery.evaluation.comparison import FEWEST_CASES, compare, rank_systems, system_pairs
from nextquery.evaluation.scenario_run import by_session_length, session_lengths
from nextquery.ranking.cases import CaseSet, RankingCase


def cases(n: int) -> CaseSet:
    made = (
        RankingCase(number, ("a",), "a", ("right", "wrong"), 0, 2 + number % 4)
        for number in range(n)
    )
    return CaseSet(tuple(made))


def test_gain_and_test_are_of_the_means_over_seeds() -> None:
    ranks = {"adj": np.array([[2, 2, 1, 2]]), "baseline": np.array([[1, 1, 1, 2], [1, 2, 1, 2]])}
    found = compare(ranks, "baseline", "adj")

    assert found.relative == pytest.approx((1 + 0.75 + 1 + 0.5) / (0.5 + 0.5 + 1 + 0.5) - 1)
    assert found.difference == pytest.approx(0.1875)
    assert found.difference_low <= found.difference <= found.difference_high
    # differences .5, .25, 0, 0: t = .1875 / (.2394 / 2) = 1.567 with 3 degrees of freedom
    assert found.p == pytest.approx(0.215, abs=0.001)


def test_every_ranker_is_compared_with_adj_and_with_the_baseline() -> None:
    assert system_pairs(["adj", "baseline", "baseline+hred", "hred"]) == [
        ("baseline", "adj"),
        ("baseline+hred", "adj"),
        ("baseline+hred", "baseline"),
    ]


def test_the_authors_rankers_are_compared_with_their_own_baseline() -> None:
    pairs = system_pairs(["adj", "baseline", "baseline_authors", "baseline_authors+hred:sum"])

    assert ("baseline_authors+hred:sum", "baseline_authors") in pairs
    assert ("baseline_authors+hred:sum", "baseline") not in pairs


def test_a_ranker_with_meaning_is_compared_with_and_without_the_model() -> None:
    pairs = system_pairs(["adj", "baseline", "baseline_semantic", "baseline_semantic+hred"])

    assert ("baseline_semantic", "baseline") in pairs
    assert ("baseline_semantic+hred", "baseline_semantic") in pairs
    assert ("baseline_semantic+hred", "baseline") in pairs


def test_few_cases_give_a_reason_instead_of_a_result() -> None:
    few = rank_systems(cases(FEWEST_CASES - 1), {"adj": np.zeros(2 * (FEWEST_CASES - 1))})
    enough = rank_systems(cases(FEWEST_CASES), {"adj": np.zeros(2 * FEWEST_CASES)})

    assert not few.summary([]).systems
    assert few.summary([]).too_few == "29 cases; at least 30 are needed"
    assert enough.summary([]).systems["adj"].mrr == 1.0


def test_sessions_are_short_medium_or_long() -> None:
    made = cases(200)
    found = by_session_length(rank_systems(made, {"adj": np.zeros(400)}))

    assert {name: part.cases for name, part in found.items()} == {
        "short": 50,
        "medium": 100,
        "long": 50,
    }
    assert session_lengths(made) == {"short": 0.25, "medium": 0.5, "long": 0.25}


def test_what_sees_earlier_queries_is_held_against_what_does_not() -> None:
    names = ["adj", "baseline", "baseline+m", "baseline_earlier", "baseline+m:earlier"]
    names += ["baseline_earlier+m", "m", "m:lift", "m:earlier_sum", "m:earlier_lift"]
    pairs = system_pairs(names)

    assert len(pairs) == len(set(pairs))
    assert {pair for pair in pairs if pair[1] != "adj"} == {
        ("baseline+m", "baseline"),
        ("baseline+m:earlier", "baseline"),
        ("baseline+m:earlier", "baseline+m"),
        ("baseline_earlier", "baseline"),
        ("baseline_earlier+m", "baseline"),
        ("baseline_earlier+m", "baseline_earlier"),
        ("m:earlier_sum", "m"),
        ("m:earlier_lift", "m:lift"),
    }

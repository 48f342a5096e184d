"""Measures of rankings, significance by user and by case, and which systems are compared."""

import numpy as np
import pytest

from nextquery.evaluation.comparison import (
    FEWEST_CASES,
    bootstrap_interval,
    bootstrap_intervals,
    compare,
    compared_pairs,
    holm,
    paired_t_test,
    paired_t_test_by_user,
    qualities,
    rank_systems,
)
from nextquery.evaluation.ranked_system import ADJ, BASELINE, RankedSystem
from nextquery.evaluation.results import ExperimentResults
from nextquery.ranking.cases import CaseSet, RankingCase

TOP = RankedSystem("baseline", "hred")


def test_quality_by_hand() -> None:
    ranks = np.array([[1, 2, 10, 4], [1, 4, 10, 2]])
    [found] = qualities({BASELINE: ranks}, list("aabc")).values()

    assert found.cases == 4
    assert found.mrr == pytest.approx((1 + 0.375 + 0.1 + 0.375) / 4)
    assert found.hit_1 == pytest.approx(1 / 4)
    assert found.hit_5 == pytest.approx(3 / 4)
    assert found.mrr_by_seed == pytest.approx((1.85 / 4, 1.85 / 4))
    assert found.seed_error == pytest.approx(0.0)
    assert found.mrr_low < found.mrr < found.mrr_high
    assert found.interval != (found.mrr_low, found.mrr_high)


def test_gain_and_test_are_of_the_means_over_seeds() -> None:
    ranks = {ADJ: np.array([[2, 2, 1, 2]]), BASELINE: np.array([[1, 1, 1, 2], [1, 2, 1, 2]])}
    [found] = compare(ranks, [(BASELINE, ADJ)], list("abcd"))

    assert (found.a, found.b) == ("baseline", "adj")
    assert found.relative == pytest.approx((1 + 0.75 + 1 + 0.5) / (0.5 + 0.5 + 1 + 0.5) - 1)
    assert found.difference == pytest.approx(0.1875)
    assert found.difference_low <= found.difference <= found.difference_high
    # differences .5, .25, 0, 0: t = .1875 / (.2394 / 2) = 1.567 with 3 degrees of freedom
    assert found.p == pytest.approx(0.215, abs=0.001)
    assert found.p_by_user == pytest.approx(found.p), "each user has one case"
    assert found.seed_error == pytest.approx(0.0625)  # differences .25 and .125


def test_significant_is_by_user_and_after_correction() -> None:
    """One person with most of the cases makes a difference by case, but none by user."""
    generator = np.random.default_rng(1)
    worse = generator.integers(2, 6, size=(1, 400))
    one_person = worse.copy()
    one_person[:, :200] = 1
    ranks = {ADJ: worse, BASELINE: one_person, TOP: np.ones((1, 400), dtype=np.int64)}
    users = ["ann"] * 200 + [f"user {number}" for number in range(200)]

    uneven, even = compare(ranks, [(BASELINE, ADJ), (TOP, ADJ)], users)

    assert uneven.p < 1e-6
    assert uneven.significant is False
    assert uneven.difference_low > 0
    assert uneven.difference_low_by_user == pytest.approx(0.0)
    assert even.p_by_user is not None
    assert even.p_holm == pytest.approx(min(1.0, 2 * even.p_by_user))


def test_holm_by_hand() -> None:
    # .005 * 4, .011 * 3, .02 * 2, .04 * 1; the third is not below the second
    assert holm([0.04, 0.005, 0.02, 0.011]) == pytest.approx([0.04, 0.02, 0.04, 0.033])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_paired_t_test_by_hand() -> None:
    # differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t = 3.464 with 2 degrees of freedom
    first, second = np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0])
    assert paired_t_test(first, second) == pytest.approx(0.0742, abs=1e-4)
    assert paired_t_test(first, first) == 1.0
    # sums 4 and 2 and 3 of three users: mean 3, standard error 1/sqrt(3), t = 5.196
    differences = np.array([1.0, 3.0, 2.0, 3.0])
    p = paired_t_test_by_user(differences, np.zeros(4), ["ann", "ann", "bob", "cy"])
    assert p == pytest.approx(0.0351, abs=1e-4)


def test_bootstrap_interval_has_the_width_theory_says() -> None:
    values = np.random.default_rng(5).normal(3.0, 2.0, size=4000)
    low, high = bootstrap_interval(values)

    error = values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.01)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.01)
    assert all(np.isnan(bootstrap_interval(np.zeros(0))))


@pytest.mark.parametrize("cases", [1, 2, 60, 700])
def test_bootstrap_draws_whole_cases_by_seed(cases: int) -> None:
    """The same as drawing the values themselves, one resample after the other."""
    values = np.random.default_rng(6).random(cases)
    generator = np.random.default_rng(0)
    drawn = [generator.integers(0, cases, size=(100, cases)) for _ in range(20)]
    means = np.concatenate([values[indices].mean(axis=1) for indices in drawn])

    assert bootstrap_interval(values) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


def test_bootstrap_over_users_draws_all_their_cases() -> None:
    """20 equal cases of each of 50 users are no more than 50 observations."""
    means = np.random.default_rng(7).random(50)
    owners = np.repeat(np.arange(50), 20)
    values = means[owners][None]

    assert bootstrap_intervals(values, owners)[0] == pytest.approx(bootstrap_interval(means))
    [low, high] = bootstrap_intervals(values, None)[0]
    [by_user_low, by_user_high] = bootstrap_intervals(values, owners)[0]
    assert by_user_high - by_user_low > 3 * (high - low)


def keys(names: list[str], reference: str = "") -> set[tuple[str, str]]:
    pairs = compared_pairs(map(RankedSystem.parse, names), reference)
    assert len(pairs) == len(set(pairs))
    return {(a.key, b.key) for a, b in pairs}


def test_rankers_are_compared_with_adj_and_with_their_own_baseline() -> None:
    names = ["adj", "baseline", "baseline+m", "baseline_authors", "baseline_authors+m:sum", "m"]
    assert keys(names) == {
        ("baseline", "adj"),
        ("baseline+m", "adj"),
        ("baseline_authors", "adj"),
        ("baseline_authors+m:sum", "adj"),
        ("baseline+m", "baseline"),
        ("baseline_authors+m:sum", "baseline_authors"),
    }


def test_rankers_with_more_features_are_also_compared_with_the_baseline() -> None:
    names = ["adj", "baseline", "baseline_semantic", "baseline_semantic+m"]
    assert {pair for pair in keys(names) if pair[1] != "adj"} == {
        ("baseline_semantic", "baseline"),
        ("baseline_semantic+m", "baseline"),
        ("baseline_semantic+m", "baseline_semantic"),
    }


def test_systems_with_earlier_queries_are_compared_with_those_without() -> None:
    names = ["adj", "baseline", "baseline+m", "baseline_earlier", "baseline+m:earlier"]
    names += ["baseline_earlier+m", "m", "m:lift", "m:earlier_sum", "m:earlier_lift"]
    assert {pair for pair in keys(names) if pair[1] != "adj"} == {
        ("baseline+m", "baseline"),
        ("baseline+m:earlier", "baseline"),
        ("baseline+m:earlier", "baseline+m"),
        ("baseline_earlier", "baseline"),
        ("baseline_earlier+m", "baseline"),
        ("baseline_earlier+m", "baseline_earlier"),
        ("m:earlier_sum", "m"),
        ("m:earlier_lift", "m:lift"),
    }


def test_every_other_model_is_compared_with_the_first_alone_and_on_top() -> None:
    """`mine` is a model under study, `run` a run or a further feature with one ranker."""
    names = ["adj", "baseline", "hred", "hred:lift", "mine", "mine:lift", "run", "qvmm"]
    names += ["baseline+hred", "baseline+hred:sum", "baseline+mine", "baseline+mine:sum"]
    found = keys([*names, "baseline+run"], "hred") - keys([*names, "baseline+run"])
    assert found == {
        ("adj", "hred"),
        ("qvmm", "hred"),
        ("run", "hred"),
        ("mine", "hred"),
        ("mine:lift", "hred:lift"),
        ("baseline+mine", "baseline+hred"),
        ("baseline+mine:sum", "baseline+hred:sum"),
        ("baseline+run", "baseline+hred"),
        ("baseline+run", "baseline+hred:sum"),
    }


def test_few_cases_give_a_reason_instead_of_a_result() -> None:
    made = [RankingCase(n, ("a",), "a", ("right", "wrong"), 0, 2) for n in range(FEWEST_CASES)]
    few = rank_systems(CaseSet(tuple(made[1:])), {ADJ: np.zeros(2 * (FEWEST_CASES - 1))})
    enough = rank_systems(CaseSet(tuple(made)), {ADJ: np.zeros(2 * FEWEST_CASES)})

    assert not few.summary([]).systems
    assert few.summary([]).too_few == "29 cases; at least 30 are needed"
    assert enough.summary([]).systems["adj"].mrr == 1.0


def test_a_comparison_is_found_by_its_two_systems(results: ExperimentResults) -> None:
    found = results.scenarios["next_query"]

    compared = found.comparison("baseline+hred", "baseline")
    assert compared is not None
    assert (compared.a, compared.b) == ("baseline+hred", "baseline")
    assert found.comparison("hred", "adj") is None

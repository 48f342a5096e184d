import numpy as np
import pytest

from nextquery.evaluation.comparison import bootstrap_interval, paired_t_test, paired_t_test_by_user


def test_paired_t_test_by_hand() -> None:
    # differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t = 3.464 with 2 degrees of freedom
    first, second = np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0])

    assert paired_t_test(first, second) == pytest.approx(0.0742, abs=1e-4)


def test_equal_systems_do_not_differ() -> None:
    values = np.array([0.5, 1.0, 0.2])

    assert paired_t_test(values, values) == 1.0
    assert paired_t_test(values[:1], values[:1]) == 1.0


def test_bootstrap_interval_has_the_width_theory_says() -> None:
    values = np.random.default_rng(5).normal(3.0, 2.0, size=4000)
    low, high = bootstrap_interval(values)

    error = values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.01)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.01)
    assert bootstrap_interval(values) == (low, high)


@pytest.mark.parametrize("cases", [1, 2, 60, 700])
def test_bootstrap_draws_whole_cases_by_seed(cases: int) -> None:
    """The same as drawing the values themselves, one resample after the other."""
    values = np.random.default_rng(6).random(cases)
    generator = np.random.default_rng(0)
    drawn = [generator.integers(0, cases, size=(100, cases)) for _ in range(20)]
    means = np.concatenate([values[places].mean(axis=1) for places in drawn])

    assert bootstrap_interval(values) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


def test_no_values_have_no_interval() -> None:
    assert all(np.isnan(bootstrap_interval(np.zeros(0))))


def test_cases_of_one_user_count_as_one_observation() -> None:
    # sums 4 and 2 and 3 of three users: mean 3, standard error 1/sqrt(3), t = 5.196
    first = np.array([1.0, 3.0, 2.0, 3.0])

    p = paired_t_test_by_user(first, np.zeros(4), ["ann", "ann", "bob", "cy"])

    assert p == pytest.approx(0.0351, abs=1e-4)
    assert paired_t_test_by_user(first, np.zeros(4), list("abcd")) == pytest.approx(
        paired_t_test(first, np.zeros(4))
    )

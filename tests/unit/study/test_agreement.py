"""Both coefficients against values calculated by hand."""

import numpy as np
import pytest

from nextquery.study.results import fleiss_kappa, krippendorff_alpha


def test_perfect_agreement_is_one() -> None:
    ratings = [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert fleiss_kappa(ratings) == pytest.approx(1)
    assert krippendorff_alpha(ratings) == pytest.approx(1)


def test_kappa_by_hand() -> None:
    # Two items, three assessors: [2, 2, 2] and [2, 0, 0].
    # P = (1 + 1/3) / 2 = 2/3; shares 2/6 and 4/6: P_e = 1/9 + 4/9 = 5/9.
    assert fleiss_kappa([[2, 2, 2], [2, 0, 0]]) == pytest.approx((2 / 3 - 5 / 9) / (4 / 9))


def test_alpha_by_hand() -> None:
    # Pairs (0,0), (0,2), (2,2): coincidences o00 = 2, o02 = o20 = 1, o22 = 2; n0 = n2 = 3.
    # With two grades in use the ordinal difference is one constant: alpha = 1 - 5 * 2 / (2 * 9).
    assert krippendorff_alpha([[0, 0], [0, 2], [2, 2]]) == pytest.approx(1 - 10 / 18)


def test_alpha_counts_a_near_miss_less_than_a_far_one() -> None:
    near = krippendorff_alpha([[0, 0], [1, 1], [2, 2], [1, 2]])
    far = krippendorff_alpha([[0, 0], [1, 1], [2, 2], [0, 2]])
    assert near is not None
    assert far is not None
    assert near > far


def test_coin_flips_are_near_zero() -> None:
    ratings = np.random.default_rng(5).integers(0, 3, (4000, 5)).tolist()
    assert fleiss_kappa(ratings) == pytest.approx(0, abs=0.02)
    assert krippendorff_alpha(ratings) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("ratings", [[], [[1]], [[1, 1], [1, 1]]])
def test_undefined_is_none(ratings: list[list[int]]) -> None:
    assert fleiss_kappa(ratings) is None
    assert krippendorff_alpha(ratings) is None


def test_items_may_have_different_numbers_of_grades() -> None:
    assert fleiss_kappa([[0, 0, 0], [2, 2], [1]]) == pytest.approx(1)

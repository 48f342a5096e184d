import math

import numpy as np
import pytest

from nextquery.feedback.compare import MOST, DifferenceTest, VoteTest


def test_the_evidence_of_votes_by_hand() -> None:
    """A Beta(1/2, 1/2) mixture after one win: B(1.5, .5) / B(.5, .5) * 2 = 1."""
    found = VoteTest(effect=0.5, alpha=0.05).evidence(np.ones(1))
    assert found.p == pytest.approx(1.0)
    after_two = VoteTest(effect=0.5, alpha=0.05).evidence(np.ones(2))
    assert after_two.p == pytest.approx(2 / 3)  # 4 * 3/8 = 3/2


def test_peeking_after_every_vote_finds_no_winner_among_equals() -> None:
    """1,000 trials of equals, looked at 3,000 times each: at most 5% may end with a winner.

    The control is the ordinary test at the same looks, which errs in most of them.
    """
    draw = np.random.default_rng(3)
    test = VoteTest(effect=0.045, alpha=0.05)
    false, naive = 0, 0
    for _ in range(1000):
        votes = (draw.random(3000) < 0.5).astype(float)
        false += not math.isnan(test.evidence(votes).crossed)
        counts = np.arange(1, 3001)
        z = np.abs(np.cumsum(votes) - counts / 2) / np.sqrt(counts / 4)
        naive += bool((z[20:] > 1.96).any())
    assert false <= 50
    assert naive > 400


def test_a_preference_is_found_by_the_horizon_as_often_as_planned() -> None:
    test = VoteTest(effect=0.045, alpha=0.05)
    horizon = test.votes_needed(0.545, 0.95)
    assert 2000 < horizon < 4000
    draw = np.random.default_rng(4)
    found = [test.evidence((draw.random(horizon) < 0.545).astype(float)) for _ in range(400)]
    assert sum(each.crossed > 0.5 for each in found) >= 0.95 * 400
    assert not any(each.crossed < 0.5 for each in found)


def test_the_interval_of_votes_holds_at_all_times() -> None:
    test = VoteTest(effect=0.05, alpha=0.05)
    draw = np.random.default_rng(5)
    missed = 0
    for _ in range(200):
        votes = (draw.random(500) < 0.6).astype(float)
        looks = [test.evidence(votes[:end]) for end in range(25, 501, 25)]
        missed += any(not each.low <= 0.6 <= each.high for each in looks)
    assert missed <= 10 + 3 * 3


def test_peeking_at_a_difference_finds_no_winner_among_equals() -> None:
    draw = np.random.default_rng(6)
    test = DifferenceTest(effect=0.06, alpha=0.05)
    sizes = np.arange(100, 4001, 50)
    variances = 2 * 0.3 * 0.7 / sizes
    false = 0
    for _ in range(1000):
        steps = draw.normal(0, math.sqrt(2 * 0.3 * 0.7), 4000)
        means = np.cumsum(steps)[sizes - 1] / sizes
        false += not math.isnan(test.evidence(means, variances).crossed)
    assert false <= 50


def test_a_difference_is_found_after_the_growth_that_was_planned() -> None:
    test = DifferenceTest(effect=0.06, alpha=0.05)
    growth = test.growth_needed(0.06, 0.001, 0.95)
    draw = np.random.default_rng(7)
    variance = 0.001 / growth
    found = [
        test.evidence(draw.normal(0.06, math.sqrt(variance), 1), np.array([variance])).crossed > 0
        for _ in range(2000)
    ]
    assert np.mean(found) == pytest.approx(0.95, abs=0.02)


def test_no_difference_is_never_found() -> None:
    assert VoteTest(0.05, 0.05).votes_needed(0.5, 0.95) == MOST
    assert DifferenceTest(0.05, 0.05).growth_needed(0.0, 0.001, 0.95) == MOST


def test_nothing_is_known_before_the_first() -> None:
    assert VoteTest(0.05, 0.05).evidence(np.zeros(0)).p == 1.0
    assert DifferenceTest(0.05, 0.05).evidence(np.zeros(0), np.zeros(0)).p == 1.0

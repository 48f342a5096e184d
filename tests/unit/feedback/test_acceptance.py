import math

import numpy as np
import pytest

from nextquery.feedback.acceptance import AcceptanceCount, effective_size, wilson


def test_wilson_by_hand() -> None:
    """10 of 100: the usual table has .0552 to .1744."""
    low, high = wilson(0.1, 100)
    assert low == pytest.approx(0.0552, abs=1e-4)
    assert high == pytest.approx(0.1744, abs=1e-4)
    assert wilson(0.5, 0) == (0.0, 1.0)


def test_lists_of_one_visitor_are_not_so_many_observations() -> None:
    alike = [(10, 10)] * 10 + [(0, 10)] * 10
    assert effective_size(alike) == pytest.approx(19)
    apart = [(1, 1)] * 100 + [(0, 1)] * 100
    assert effective_size(apart) == pytest.approx(199)


def test_where_nothing_was_taken_each_visitor_counts_once() -> None:
    assert effective_size([(0, 50)] * 4) == 4
    assert effective_size([]) == 0


def test_the_interval_holds_what_is_true_as_often_as_it_says() -> None:
    """Visitors differ: each has a rate of their own. A plain binomial interval would fail here."""
    draw = np.random.default_rng(1)
    inside = 0
    for _ in range(300):
        count = AcceptanceCount()
        for visitor, rate in enumerate(draw.beta(0.5, 2.0, 80)):
            for taken in draw.random(20) < rate:
                count.add(str(visitor), taken=bool(taken))
        found = count.acceptance()
        inside += found.low <= 0.2 <= found.high
    assert inside >= 300 * 0.95 - 3 * math.sqrt(300 * 0.95 * 0.05)

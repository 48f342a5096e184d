from collections import Counter

import numpy as np
import pytest
from tests.unit.feedback.made_up import VISITORS, acceptance, ranked, run

from nextquery.feedback.events import ServedList, TakenSuggestion
from nextquery.feedback.simulated_visitors import SimulatedService, SimulatedVisitors, simulate


def test_acceptance_is_what_arithmetic_says() -> None:
    model = ranked(0.25, seed=3)
    shown = run({"A": model}, "", 3000, 1).impressions
    taken = sum(bool(each.taken) for each in shown) / len(shown)
    assert taken == pytest.approx(acceptance(model), abs=3 * (0.25 / 6000) ** 0.5)


def test_what_is_not_looked_at_is_not_taken() -> None:
    blind = SimulatedVisitors([("q",)], lambda *_: 1.0, examination=(0.0, 1.0))
    places = {
        blind.accepted_position(("q",), ["a", "b", "c"], np.random.default_rng(n)) for n in range(9)
    }
    assert places == {1}


def test_the_same_seed_gives_the_same_visits() -> None:
    service = SimulatedService({"A": ranked(0.1)})
    first, again = (
        list(simulate(VISITORS, service, 20, np.random.default_rng(1))) for _ in range(2)
    )
    assert first == again
    kinds = Counter(map(type, first))
    assert kinds[ServedList] == 40
    assert kinds[TakenSuggestion] > 0

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.feedback.made_up import VISITORS, ranked, run

from nextquery.feedback.acceptance import estimate_position_bias
from nextquery.feedback.impressions import join_events
from nextquery.feedback.settings import Bounds
from nextquery.feedback.simulated_visitors import EXAMINATION, SimulatedService, simulate


def test_what_is_looked_at_is_found_again() -> None:
    """Visitors of known habits; two models that order alike enough to vary the places."""
    found = estimate_position_bias(
        run({"A": ranked(0.05, 1), "B": ranked(0.1, 2)}, "interleave", 4000, 1).impressions
    )
    assert found.pairs > 50
    assert [place.position for place in found.positions] == [1, 2, 3, 4, 5]
    for place, true in zip(found.positions, EXAMINATION, strict=True):
        assert place.examined == pytest.approx(true, rel=0.15)
        assert place.low * 0.9 <= true <= place.high * 1.1
    values = [place.examined for place in found.positions]
    assert values == sorted(values, reverse=True)


def test_without_bias_none_is_found() -> None:
    careful = replace(VISITORS, examination=(1.0,) * 5)
    service = SimulatedService({"A": ranked(0.05, 1), "B": ranked(0.1, 2)}, "interleave")
    events = simulate(careful, service, 3000, np.random.default_rng(1))
    found = estimate_position_bias(join_events(events, Bounds(per_origin=0)).impressions)
    assert all(place.low < 1.05 and place.high > 0.95 for place in found.positions)


def test_one_order_tells_nothing() -> None:
    found = estimate_position_bias(run({"A": ranked(0.0)}, "", 500, 1).impressions)
    assert found.positions == ()
    assert "0 accepted suggestions were shown at several positions" in found.too_few
    assert found.examined(3) == 1.0


def test_places_below_the_last_known_count_as_it() -> None:
    models = {"A": ranked(0.05, 1), "B": ranked(0.1, 2)}
    found = estimate_position_bias(run(models, "interleave", 500, 1).impressions)
    assert found.examined(99) == found.positions[-1].examined

import numpy as np
import pytest
from tests.unit.feedback.test_report_results import shown

from nextquery.errors import ArtifactError
from nextquery.feedback.acceptance import Examination, PositionBias
from nextquery.feedback.rerank_training import count_taken
from nextquery.feedback.reranker import PRIOR, TakenRates

BIAS = PositionBias((Examination(1, 1.0, 1, 1), Examination(2, 0.5, 0.4, 0.6)), 10, 200)
LISTS = [shown(n, taken=1 if n < 5 else None) for n in range(10)]


def test_rates_by_hand() -> None:
    """Boots stood first ten times, never taken; socks second, five times taken."""
    rates = count_taken(LISTS, BIAS, min_visitors=3)
    overall = (5 + 1) / (10 + 10 * 0.5 + 2)
    assert rates.overall == pytest.approx(overall)
    assert rates.exposed("shoes", "boots") == 10
    assert rates.exposed("shoes", "socks") == 5
    socks = (5 + PRIOR * overall) / (5 + PRIOR)
    assert rates.suggestion("socks") == pytest.approx(socks)
    assert rates.pair("shoes", "socks") == pytest.approx((5 + PRIOR * socks) / (5 + PRIOR))
    assert rates.pair("hats", "socks") == pytest.approx((PRIOR * socks) / PRIOR)


def test_what_few_visitors_were_shown_is_not_remembered() -> None:
    assert len(count_taken(LISTS, BIAS, min_visitors=6).keys) == 0
    assert len(count_taken(LISTS, BIAS, min_visitors=5).keys) == 4


def test_queries_are_known_as_models_know_them() -> None:
    typed = [shown(n, query="  RED Shoes!") for n in range(5)]
    assert count_taken(typed, BIAS, 3).exposed("red shoes", "boots") == 5


def test_hostile_tables_are_refused() -> None:
    keys, numbers = np.array([1, 2], np.uint64), np.ones(2)
    TakenRates(keys, numbers, numbers, 0.1).check()
    for broken in (
        TakenRates(keys, numbers[:1], numbers, 0.1),
        TakenRates(keys, -numbers, numbers, 0.1),
        TakenRates(keys, numbers * np.nan, numbers, 0.1),
        TakenRates(keys, numbers, numbers, 0.0),
    ):
        with pytest.raises(ArtifactError):
            broken.check()

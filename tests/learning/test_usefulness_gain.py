"""Learning from clicks brings more satisfying next queries where clicks mean something, only there.

docs/how-to/feedback.md has figures of the same functions (`python -m research satisfaction`).
"""

from pathlib import Path
from typing import Any

import pytest

from nextquery.logs.synthetic.log import Satisfaction
from research import satisfaction

pytestmark = pytest.mark.slow


@pytest.fixture
def changed(tmp_path: Path) -> Any:
    def measure(log: Satisfaction) -> Any:
        data, cases = satisfaction.make_cases(tmp_path / log, log, 12_000)
        return satisfaction.count_change(data, cases, "adjacency")

    return measure


def test_satisfying_queries_rise_where_satisfaction_follows_from_the_query(changed: Any) -> None:
    change = changed("outcome")
    assert change["satisfied"]["cases"] > 500
    assert change["satisfied"]["z"] > 3
    assert change["not_satisfied"]["z"] < -3


def test_by_chance_nothing_rises(changed: Any) -> None:
    change = changed("chance")
    assert abs(change["satisfied"]["z"]) < 2.6
    assert abs(change["not_satisfied"]["z"]) < 2.6

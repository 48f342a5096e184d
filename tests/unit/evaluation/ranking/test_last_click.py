"""Sessions that ended in a click are told from others, and systems are compared on each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nextquery.evaluation.comparison import FEWEST_CASES, rank_systems
from nextquery.evaluation.scenario_features import by_last_click, clicked_endings, useful_scores
from nextquery.ranking.cases import CaseSet, RankingCase


class Judge:
    """Finds every second candidate useless."""

    judges_usefulness = True

    def usefulness_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        assert len(contexts) == len(candidates)
        return [[0.5 if place % 2 == 0 else 0.1 for place in range(len(c))] for c in candidates]


def cases(number: int) -> CaseSet:
    made = (RankingCase(n, ("a",), "a", ("right", "wrong"), 0, 2) for n in range(number))
    return CaseSet(tuple(made))


def test_the_last_query_decides(prepared: Any, tiny_log: Any) -> None:
    sessions = [("a", ("shoes", "boots")), ("b", ("shoes", "boots")), ("c", ("hats", "socks"))]
    clicks = [("a", "boots", "https://example/1"), ("b", "shoes", "https://example/2")]
    data = prepared(tiny_log(sessions, clicks=clicks, reverse=True))
    assert clicked_endings(data, ["background"]) == {0}


def test_useful_candidates_rise() -> None:
    found = useful_scores(Judge(), cases(300), np.full(600, -1.0))
    assert found is not None
    assert found[:2] == pytest.approx([-1 + np.log(0.5), -1 + np.log(0.1)])
    assert useful_scores(object(), cases(3), np.zeros(6)) is None


def test_systems_are_measured_where_clicked_and_where_not() -> None:
    number = 2 * FEWEST_CASES
    flat = np.tile([0.0, 1.0], number)
    lifted = flat.copy()
    lifted[:number] = np.tile([2.0, 1.0], FEWEST_CASES)  # the first half, which was clicked
    ranks = rank_systems(cases(number), {"m": flat, "m:useful": lifted})
    found = by_last_click(ranks, frozenset(range(FEWEST_CASES)))
    assert found["clicked"].systems["m:useful"].mrr == 1.0
    assert found["not_clicked"].systems["m:useful"].mrr == 0.5
    gains = {name: each.comparisons[0].difference for name, each in found.items()}
    assert gains == {"clicked": 0.5, "not_clicked": 0.0}
    assert by_last_click(ranks, frozenset()) == {}

import pytest

from nextquery.evaluation.paper import PAPER
from nextquery.evaluation.scenarios import SCENARIOS


def test_the_papers_gains_follow_from_its_mrrs() -> None:
    assert PAPER["next_query"].gain("baseline") == pytest.approx(0.033, abs=0.0005)
    assert PAPER["robust"].gain("baseline") == pytest.approx(0.099, abs=0.0005)
    assert PAPER["long_tail"].gain("adj") == pytest.approx(0.857, abs=0.0005)


def test_every_scenario_of_the_paper_is_one_of_ours() -> None:
    assert set(PAPER) < set(SCENARIOS)

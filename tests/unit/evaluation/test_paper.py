import re
from pathlib import Path

import pytest

from nextquery import __version__
from nextquery.evaluation.paper import PAPER
from nextquery.evaluation.scenarios import SCENARIOS


def test_the_papers_gains_follow_from_its_mrrs() -> None:
    assert PAPER["next_query"].gain("baseline") == pytest.approx(0.033, abs=0.0005)
    assert PAPER["robust"].gain("baseline") == pytest.approx(0.099, abs=0.0005)
    assert PAPER["long_tail"].gain("adj") == pytest.approx(0.857, abs=0.0005)


def test_every_scenario_of_the_paper_is_one_of_ours() -> None:
    assert set(PAPER) < set(SCENARIOS)


def test_citations_name_the_present_version() -> None:
    root = Path(__file__).parents[3]
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    page = (root / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert re.findall("^version: (.*)$", citation, re.MULTILINE) == [__version__]
    assert f"version = {{{__version__}}}" in page
    for text in (citation, page):
        assert "10.1145/2806416.2806493" in text

"""The synthetic log under the paper's rules: enough cases, and a gain that only the context gives.

A reader who was told which words belong to which intent stands for a model that has learnt it: it
ranks the candidates by how often the context speaks of their intent, then by the ADJ count.
"""

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nextquery.evaluation.scenarios import Rules, long_tail_cases, next_query_cases, robust_cases
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.logs.synthetic.queries import ENTITIES, INTENTS, OUTCOMES, SIGNALS, load_lexicon
from nextquery.ranking.cases import (
    BackgroundCounts,
    Backgrounds,
    CaseSet,
    RankingCase,
    reciprocal_ranks,
)
from nextquery.records import Session

SESSIONS = 60_000  # the size that docs/explanation/synthetic-log.md gives for experiments
SCENARIOS = {"next_query": next_query_cases, "robust": robust_cases, "long_tail": long_tail_cases}

pytestmark = pytest.mark.slow


class TestLog:
    """The test sessions and the background's counts of a synthetic log."""

    __test__ = False

    def __init__(self, folder: Path, *, shuffled: bool) -> None:
        write_log(folder / "log.tsv", SESSIONS, seed=1, shuffled=shuffled)
        prepare([folder / "log.tsv"], folder / "data", PrepareSettings(spelling=False))
        data = PreparedData(folder / "data")
        self.background = BackgroundCounts.read(data)
        self.sessions: list[Session] = list(data.sessions("test"))

    def cases(self, scenario: str) -> CaseSet:
        return SCENARIOS[scenario](self.sessions, Backgrounds(self.background), Rules())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> TestLog:
    return TestLog(tmp_path_factory.mktemp("log"), shuffled=False)


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> TestLog:
    return TestLog(tmp_path_factory.mktemp("control"), shuffled=True)


@cache
def _intent_of_queries() -> dict[str, int]:
    """The intent of every query that carries words of one."""
    lexicon, intents = load_lexicon(), {}
    names = lexicon.phrases[lexicon.starts["entities"] :]
    kinds = {"signals": SIGNALS, "outcomes": OUTCOMES}
    for number in range(len(lexicon.domains) * ENTITIES):
        first = number // ENTITIES * INTENTS
        for intent in range(first, first + INTENTS):
            for kind, size in kinds.items():
                start = lexicon.starts[kind] + intent * size
                for phrase in lexicon.phrases[start : start + size]:
                    intents[f"{names[number]} {phrase}"] = intent
                    intents[f"{phrase} {names[number]}"] = intent
    return intents


def _reader(case: RankingCase, background: BackgroundCounts) -> list[float]:
    intents = _intent_of_queries()
    votes = Counter(intents[query] for query in case.context if query in intents)
    spoken = [votes[intents[text]] if text in intents else 0 for text in case.candidates]
    counts = _adjacency(case, background)
    return [1e6 * vote + count for vote, count in zip(spoken, counts, strict=True)]


def _adjacency(case: RankingCase, background: BackgroundCounts) -> list[float]:
    followers = background.followers(case.anchor)
    return [float(followers.get(text, 0)) for text in case.candidates]


def _mrr(log: TestLog, cases: CaseSet) -> tuple[float, float]:
    """MRR of the ADJ count alone, and of the reader."""
    means = []
    for system in (_adjacency, _reader):
        scores = [score for case in cases.cases for score in system(case, log.background)]
        means.append(float(reciprocal_ranks(cases, np.array(scores)).mean()))
    return means[0], means[1]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_has_enough_cases_and_room(log: TestLog, scenario: str) -> None:
    cases = log.cases(scenario)
    assert len(cases) >= 1000
    adjacency, reader = _mrr(log, cases)
    assert adjacency < 0.35
    assert reader > adjacency + 0.12


@pytest.mark.parametrize("scenario", ["next_query", "long_tail"])
def test_longer_sessions_give_larger_gains(log: TestLog, scenario: str) -> None:
    cases = log.cases(scenario)
    gains = []
    for shortest, longest in ((2, 2), (3, 4), (5, 99)):
        part = cases.select(shortest <= case.length <= longest for case in cases.cases)
        assert len(part) > 100
        adjacency, reader = _mrr(log, part)
        gains.append(reader - adjacency)
    assert gains[0] < gains[1] < gains[2]


def test_in_the_control_the_reader_has_no_advantage(control: TestLog) -> None:
    cases = control.cases("next_query")
    assert len(cases) > 100
    adjacency, reader = _mrr(control, cases)
    assert reader < adjacency + 0.02

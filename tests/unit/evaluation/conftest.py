"""Results by hand, for everything that only reads them, and a small synthetic log."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.progress import Progress

from nextquery.artifacts import publish
from nextquery.evaluation.comparison import Comparison, Quality, RankingResult
from nextquery.evaluation.learning_curve import CurvePoint, CurveSystem, LearningCurve
from nextquery.evaluation.lists import (
    DecodingTime,
    GenerationQuality,
    GenerationResult,
    SystemLists,
)
from nextquery.evaluation.paper import SampleContext, SampleTable, TrainingFacts
from nextquery.evaluation.probes.gates import (
    BoundaryResult,
    BoundaryScore,
    GateComparison,
    GateExample,
    ProjectedText,
    Projections,
)
from nextquery.evaluation.probes.likelihood import AtDistance, IntentResult
from nextquery.evaluation.results import DataFacts, ExperimentResults, SystemNames
from nextquery.evaluation.scenario_run import (
    ContextLengthResult,
    RankerFacts,
    ScenarioResult,
    SplitResult,
)
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import Steps
from nextquery.guard.guard import Guard
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig
from nextquery.ranking.features import BASELINE_FEATURES
from nextquery.ranking.lambdamart import TreeShape
from nextquery.records import ScoredQuery
from nextquery.suggesters.neural import HREDSuggester
from nextquery.text.vocabulary import Vocabulary

MRR = {"adj": 0.3, "baseline": 0.4, "baseline+hred:sum": 0.5, "baseline+hred": 0.52, "hred": 0.45}


def quality(mrr: float) -> Quality:
    low, high = mrr - 0.02, mrr + 0.02
    return Quality(
        200, mrr, low, high, mrr / 2, mrr, (mrr,), mrr_low_by_user=low, mrr_high_by_user=high
    )


def comparison(a: str, b: str, p: float = 0.0004) -> Comparison:
    difference = MRR[a] - MRR[b]
    limits = difference - 0.01, difference + 0.01
    return Comparison(
        a,
        b,
        MRR[a] / MRR[b] - 1,
        p,
        difference,
        *limits,
        p_by_user=p,
        difference_low_by_user=difference - 0.02,
        difference_high_by_user=difference + 0.02,
        p_holm=2 * p,
        significant=2 * p < 0.01,
    )


def made_scenario() -> ScenarioResult:
    systems = {name: quality(mrr) for name, mrr in MRR.items()}
    comparisons = (
        comparison("baseline", "adj"),
        comparison("baseline+hred", "adj"),
        comparison("baseline+hred:sum", "baseline"),
        comparison("baseline+hred", "baseline"),
        comparison("adj", "hred", 0.02),
    )
    length = RankingResult(100, systems=systems, comparisons=comparisons)
    few = RankingResult(7, too_few="7 cases; at least 30 are needed")
    facts = RankerFacts(("sum", "lift"), TreeShape(7, 0.1, 50), (120,), 0.51, {"qvmm": 0.7})
    return ScenarioResult(
        cases={"training": 500, "validation": 200, "test": 200},
        session_lengths={"short": 0.5, "medium": 0.3, "long": 0.2},
        noisy_contexts=0.25,
        candidates=20.0,
        systems=systems,
        comparisons=comparisons,
        by_session_length={"short": length, "medium": few, "long": length},
        unseen_users=SplitResult(systems={name: quality(0.25) for name in MRR}),
        rankers={"baseline": facts, "baseline+hred": facts},
        form_choices={"hred": {"sum": 0.5, "sum+lift": 0.51}},
        single_features=dict.fromkeys(BASELINE_FEATURES, 0.2),
        by_context_length={
            "hred": ContextLengthResult(40, queries={"1": systems, "2": systems, "all": systems})
        },
    )


@pytest.fixture
def results() -> ExperimentResults:
    lists = GenerationQuality(50, 0.9, 0.1, 0.2, 0.3, 0.15, 0.4, 0.5, None, 0.8)
    points = tuple(ProjectedText(f"word {n}", n % 5, n // 5, n % 3) for n in range(20))
    return ExperimentResults(
        scenarios={
            "next_query": made_scenario(),
            "long_tail": ScenarioResult(
                cases={"training": 3, "validation": 2, "test": 0},
                session_lengths={"short": None, "medium": None, "long": None},
                noisy_contexts=None,
                candidates=None,
                too_few="3 training cases, 100 needed",
            ),
        },
        generation=GenerationResult(
            50, 20, 5, {"hred": SystemLists(all=lists, known_anchor=lists, refused_by_guards=0.1)}
        ),
        samples=SampleTable((SampleContext(("a & b",), "c", {"hred": ("d", "e")}),)),
        gates={
            "hred": GateComparison(
                contexts=30,
                by_position={"1": 0.9},
                example=GateExample(("x", "y", "google"), ((0.9, 0.8), (0.5, 0.4), (0.1, 0.2))),
                own_query=0.45,
                noisy_query=0.15,
                difference=-0.3,
                difference_low=-0.35,
                difference_high=-0.25,
                p=0.0001,
                noise_updates_less=0.9,
            )
        },
        hidden_intent={
            "hred": IntentResult(90, 1.953, 0.61, (AtDistance(1, 60, 1.9, 0.63),)),
        },
        boundaries=BoundaryResult(90, 30, 80, {"hred gates": BoundaryScore(0.5, 0.6, 0.545)}),
        projections={"hred": Projections(points, ())},
        decoding={"hred": DecodingTime(50, 20, 43.5)},
        data=DataFacts({"sessions": {"background": 5000, "test": 200}}, {"min_users": 1}),
        systems=SystemNames(("hred",), ()),
        settings=ExperimentSettings(("next_query", "long_tail"), seeds=1),
        versions={"nextquery": "0.1.0"},
        new_visitors={"next_query": made_scenario()},
        training={"hred": TrainingFacts("hred", 1.5, {}, {"steps": 3534, "seconds": 120}, None)},
    )


@pytest.fixture
def curve() -> LearningCurve:
    """Pays at the two largest of three sizes."""

    def point(sessions: int, p: float) -> CurvePoint:
        pair = replace(comparison("baseline+hred:sum", "baseline"), p=1.0, p_by_user=p)
        systems = {name: quality(mrr) for name, mrr in {**MRR, "qvmm": 0.28}.items()}
        alone = {"hred": CurveSystem(1.0, 0.4, 80.0), "adj": CurveSystem(0.5, 0.2, 900.0)}
        return CurvePoint(sessions, sessions // 10, systems, (pair,), alone)

    points = point(1000, 0.2), point(2000, 0.001), point(4000, 0.0001)
    return LearningCurve("every_context", ("adj", "qvmm", "baseline"), points)


@pytest.fixture(scope="session")
def steps() -> Steps:
    return Steps(Progress(disable=True))


class SharedWords:
    """A system of one's own: counts the words that a candidate shares with the context."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        known = {word for query in context for word in query.split()}
        return [
            ScoredQuery(text, float(len(known & set(text.split()))), len(text.split()))
            for text in candidates
        ]


@pytest.fixture(scope="session")
def shared_words() -> SharedWords:
    return SharedWords()


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """A synthetic log with some hundreds of sessions to evaluate on, and users never seen."""
    folder = tmp_path_factory.mktemp("small")
    write_log(folder / "log.tsv", 3000, seed=1, shuffled=False)
    settings = PrepareSettings(spelling=False, min_users=1, holdout_users=0.1)
    prepare([folder / "log.tsv"], folder / "data", settings)
    return PreparedData(folder / "data")


@pytest.fixture
def untrained(tmp_path: Path) -> Callable[[tuple[str, ...]], HREDSuggester]:
    """Makes an untrained model of given words with a guard that refuses nothing."""

    def make(words: tuple[str, ...]) -> HREDSuggester:
        torch.manual_seed(1)
        model = HRED(
            ModelConfig(embedding_size=8, query_size=12, session_size=16), Vocabulary(words)
        )
        folder = tmp_path / f"model-{len(words)}"
        with publish(folder, "hred", model.manifest_entries()) as partial:
            model.write_files(partial)
        return HREDSuggester.load(folder, Guard())

    return make

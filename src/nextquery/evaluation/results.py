"""Everything that an experiment finds, as one frozen record: what `results.json` holds.

Each part is a record of the module that measures it; this one only puts them together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nextquery.evaluation.comparison import RankedSystem
from nextquery.evaluation.completion import CompletionResult
from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.lists import DecodingTime, GenerationResult
from nextquery.evaluation.paper import PaperExamples, SampleTable, TrainingFacts
from nextquery.evaluation.probes.gates import (
    BoundaryResult,
    GateComparison,
    GateResult,
    Projections,
)
from nextquery.evaluation.probes.likelihood import IntentResult, NgramPerplexity
from nextquery.evaluation.returning import ReturningResult
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import OPTIONAL


@dataclass(frozen=True)
class DataFacts:
    """What the manifest of the data folder says of the log."""

    counts: Mapping[str, Any]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class SystemNames:
    """The systems under study, and those that only contribute a feature."""

    models: tuple[str, ...]
    features: tuple[str, ...]


@dataclass(frozen=True)
class ExperimentResults:
    """The results of an experiment; `to_json` of it is `results.json`."""

    scenarios: Mapping[str, ScenarioResult]
    """For known visitors, whose own earlier sessions count: the paper's rule."""
    generation: GenerationResult
    samples: SampleTable
    gates: Mapping[str, GateComparison | GateResult]
    hidden_intent: Mapping[str, IntentResult]
    """Empty unless the log is synthetic."""
    boundaries: BoundaryResult
    projections: Mapping[str, Projections]
    decoding: Mapping[str, DecodingTime]
    data: DataFacts
    systems: SystemNames
    settings: ExperimentSettings
    versions: Mapping[str, str]
    training: Mapping[str, TrainingFacts]
    new_visitors: Mapping[str, ScenarioResult] = field(default_factory=dict, metadata=OPTIONAL)
    """The scenarios again, with nothing counted that a case's own user did."""
    learning_curve: LearningCurve | None = field(default=None, metadata=OPTIONAL)
    completion: CompletionResult | None = field(default=None, metadata=OPTIONAL)
    returning: ReturningResult | None = field(default=None, metadata=OPTIONAL)
    """Lists for returning and first-time visitors apart, with the visitors' own earlier queries."""
    ngrams: Mapping[str, tuple[NgramPerplexity, ...]] = field(
        default_factory=dict, metadata=OPTIONAL
    )
    """By model: n-grams in its vocabulary, measured on the validation sessions."""
    seconds: Mapping[str, float] = field(default_factory=dict, metadata=OPTIONAL)
    """CPU time of each step; that of rankers trained in separate processes is the scenario's
    `ranker_seconds`."""
    paper_examples: Mapping[str, PaperExamples] = field(default_factory=dict, metadata=OPTIONAL)
    unseen_generation: GenerationResult | None = field(default=None, metadata=OPTIONAL)
    """Lists for visitors whom the background does not know, if users were held out."""
    list_times: Mapping[str, float] = field(default_factory=dict, metadata=OPTIONAL)
    """By system: the median milliseconds of a list of five."""
    fold_models: Mapping[str, int] = field(default_factory=dict, metadata=OPTIONAL)
    """By model: how many fold models stood in for it with new visitors; others had seen them."""

    @property
    def reported(self) -> dict[str, ScenarioResult]:
        """The scenarios of known visitors that had enough cases."""
        return with_enough_cases(self.scenarios)

    @property
    def main_systems(self) -> list[str]:
        """The systems of the paper's tables; of each model first the paper's one feature."""
        models = self.systems.models
        learnt = [
            RankedSystem("baseline", model, form).key for model in models for form in ("sum", "")
        ]
        return ["adj", "baseline", *learnt]


def with_enough_cases(scenarios: Mapping[str, ScenarioResult]) -> dict[str, ScenarioResult]:
    """The scenarios that have results."""
    return {name: scenario for name, scenario in scenarios.items() if scenario.systems}

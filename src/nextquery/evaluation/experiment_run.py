"""The steps of one experiment while it runs.

Knows what each step needs of the data, the contestants and the settings; each step's work is a
module of its own, and a finished one is taken from the store.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nextquery.artifacts import versions
from nextquery.errors import InputError
from nextquery.evaluation.generation.decoding_time import decoding_time
from nextquery.evaluation.generation.list_quality import run_generation, sample_contexts
from nextquery.evaluation.generation.samples import sample_suggestions
from nextquery.evaluation.probes.boundaries import boundary_figures, read_gaps
from nextquery.evaluation.probes.gates import gate_example, gate_figures
from nextquery.evaluation.probes.projections import projections
from nextquery.evaluation.progress import Steps
from nextquery.evaluation.ranking.noise import Noise
from nextquery.evaluation.ranking.parts import Evaluated, read_evaluated
from nextquery.evaluation.ranking.scenario_run import RankingSettings, run_scenario
from nextquery.evaluation.ranking.scenarios import SCENARIOS, Rules
from nextquery.evaluation.step_store import StepStore
from nextquery.evaluation.systems import Contestants
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Decoding, Embedder, Gated


@dataclass(frozen=True)
class ExperimentSettings:
    """What an experiment can be told."""

    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    min_followers: int = 20
    seeds: int = 5
    """How many rankers are trained for each learnt system."""
    seed: int = 0
    """Of everything that is drawn: noise, distractors, samples, projections."""
    ranker_cases: int = 10_000
    """At most this many training, and validation, cases teach the rankers of a scenario."""
    generation_contexts: int = 500
    gate_contexts: int = 2000
    boundary_queries: int = 10_000
    """How many queries of the validation and of the test streams are looked at."""
    boundary_labels: Path | None = None

    def __post_init__(self) -> None:
        unknown = set(self.scenarios) - set(SCENARIOS)
        if unknown:
            raise InputError(f"`scenario` {min(unknown)!r}: must be one of {', '.join(SCENARIOS)}")
        if self.min_followers < 1 or self.seeds < 1:
            raise InputError("`min_followers` and `seeds` must be at least 1")


Figures = dict[str, Any]


class ExperimentRun:
    """All steps with what they share."""

    def __init__(
        self,
        data: PreparedData,
        contestants: Contestants,
        settings: ExperimentSettings,
        out: Path,
        store: StepStore,
        steps: Steps,
    ) -> None:
        self._data = data
        self._contestants = contestants
        self._settings = settings
        self._out = out
        self._store = store
        self._steps = steps
        rules = Rules(settings.min_followers, settings.seed)
        self._ranking = RankingSettings(rules, settings.seeds, settings.ranker_cases)
        self._evaluated: Evaluated = read_evaluated(data)

    def results(self) -> Figures:
        """Every step's figures."""
        others: dict[str, Callable[[], Figures]] = {
            "generation": self._generation,
            "samples": self._samples,
            "gates": self._gates,
            "boundaries": self._boundaries,
            "projections": self._projections,
            "decoding": self._decoding,
        }
        return {
            "scenarios": {
                name: self._store.run(name, lambda name=name: self._scenario(name))  # type: ignore[misc]
                for name in self._settings.scenarios
            },
            **{name: self._store.run(name, step) for name, step in others.items()},
            "data": self._data_facts(),
            "systems": {
                "models": list(self._contestants.models),
                "features": list(self._contestants.features),
            },
            "settings": {
                name: str(value) if isinstance(value, Path) else value
                for name, value in asdict(self._settings).items()
            },
            "versions": versions(),
        }

    def _scenario(self, name: str) -> Figures:
        return run_scenario(
            name,
            self._evaluated,
            self._contestants,
            self._ranking,
            self._out / "trec",
            self._steps,
        )

    def _generation(self) -> Figures:
        cases = sample_contexts(
            self._evaluated.sessions["test"],
            self._evaluated.background,
            self._settings.generation_contexts,
            self._settings.seed,
        )
        return run_generation(
            self._contestants.suggesters, cases, self._evaluated.background, self._steps
        )

    def _samples(self) -> Figures:
        self._steps.begin("samples")
        return sample_suggestions(
            self._contestants.suggesters, self._evaluated.sessions["test"], self._settings.seed
        )

    def _gates(self) -> Figures:
        self._steps.begin("update gates")
        noise = Noise(self._evaluated.background, self._settings.seed)
        sessions = self._evaluated.sessions["test"][: self._settings.gate_contexts]
        return {
            name: {
                **gate_figures(model, sessions, noise, self._steps.track(name)),
                "example": gate_example(model, sessions, noise),
            }
            for name, model in self._gated.items()
        }

    def _boundaries(self) -> Figures:
        self._steps.begin("session boundaries")
        tuning, test = read_gaps(
            self._data, self._settings.boundary_queries, self._settings.boundary_labels
        )
        return boundary_figures(tuning, test, self._gated, self._steps.track("gates"))

    def _projections(self) -> Figures:
        self._steps.begin("projections")
        return {
            name: projections(model, self._data, self._settings.seed)
            for name, model in self._contestants.models.items()
            if isinstance(model, Embedder)
        }

    def _decoding(self) -> Figures:
        self._steps.begin("decoding time")
        return {
            name: decoding_time(model, self._evaluated.sessions["test"])
            for name, model in self._contestants.models.items()
            if isinstance(model, Decoding)
        }

    @property
    def _gated(self) -> dict[str, Gated]:
        models = self._contestants.models.items()
        return {name: model for name, model in models if isinstance(model, Gated)}

    def _data_facts(self) -> Figures:
        """What the log is like, and how rarely the paper's rule applies to it."""
        manifest = self._data.artifact.manifest
        return {"counts": manifest.get("counts", {}), "settings": manifest.get("settings", {})}

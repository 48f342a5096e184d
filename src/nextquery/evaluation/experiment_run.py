"""The steps of one experiment while it runs.

Knows what each step needs of the data, the systems and the settings; each step's work is a module
of its own, and a finished one is taken from the store.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from nextquery.artifacts import versions
from nextquery.evaluation.generation.completion_quality import CompletionResult, run_completion
from nextquery.evaluation.generation.decoding_time import DecodingTime, decoding_time
from nextquery.evaluation.generation.list_quality import (
    GenerationCase,
    GenerationResult,
    run_generation,
    sample_contexts,
)
from nextquery.evaluation.generation.sample_suggestions import SampleTable, sample_suggestions
from nextquery.evaluation.learning_curve import CurveSettings, LearningCurve, learning_curve
from nextquery.evaluation.probes.boundaries import BoundaryResult, boundary_result, read_gaps
from nextquery.evaluation.probes.gates import GateComparison, GateResult, gate_result
from nextquery.evaluation.probes.hidden_intent import IntentResult, intent_result
from nextquery.evaluation.probes.ngram_perplexity import NgramPerplexity, ngram_perplexities
from nextquery.evaluation.probes.paper_examples import PaperExamples, paper_examples
from nextquery.evaluation.probes.projections import Projections, projections
from nextquery.evaluation.probes.training_table import TrainingFacts
from nextquery.evaluation.progress import Steps
from nextquery.evaluation.ranking.earlier_queries import read_earlier_queries
from nextquery.evaluation.ranking.noise import Noise
from nextquery.evaluation.ranking.parts import (
    EvaluationData,
    as_new_visitors,
    read_evaluation_data,
    with_all_sessions,
    with_every_position,
)
from nextquery.evaluation.ranking.ranker_jobs import RankerProcesses, Train
from nextquery.evaluation.ranking.scenario_result import ScenarioResult
from nextquery.evaluation.ranking.scenario_run import RankingSettings, begin_scenario
from nextquery.evaluation.ranking.scenarios import Rules
from nextquery.evaluation.ranking.user_groups import read_user_groups
from nextquery.evaluation.results import DataFacts, ExperimentResults, SystemNames
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.step_store import Finish, StepStore
from nextquery.evaluation.systems import Systems, SystemSource
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Decoding, Embedder, Gated


class ExperimentRun:
    """All steps with what they share."""

    def __init__(
        self,
        data: PreparedData,
        systems: Systems,
        settings: ExperimentSettings,
        out: Path,
        store: StepStore,
        steps: Steps,
    ) -> None:
        self._data = data
        self._systems = systems
        self._settings = settings
        self._out = out
        self._store = store
        self._steps = steps
        rules = Rules(settings.min_followers, settings.seed)
        self._ranking = RankingSettings(
            rules,
            settings.seeds,
            settings.ranker_cases,
            settings.runs,
            read_user_groups(settings.users_apart),
            settings.test_users,
        )
        self._begun: list[Finish[ScenarioResult]] = []
        self._evaluation: EvaluationData = read_evaluation_data(data)

    def results(self, training: Mapping[str, TrainingFacts]) -> ExperimentResults:
        """Every step's result, with the facts that training left in the model folders.

        Rankers are trained in processes of their own while the steps that need none go on.
        """
        run = self._store.run
        manifest = self._data.artifact.manifest
        with RankerProcesses() as processes:
            known = self._known_visitors(processes.train)
            new = self._new_visitors(processes.train)
            return ExperimentResults(
                generation=run("generation", GenerationResult, self._generation),
                completion=run("completion", CompletionResult, self._completion),
                samples=run("samples", SampleTable, self._samples),
                paper_examples=run(
                    "paper_examples", dict[str, PaperExamples], self._paper_examples
                ),
                ngrams=run("ngrams", dict[str, tuple[NgramPerplexity, ...]], self._ngrams),
                gates=run("gates", dict[str, GateComparison | GateResult], self._gates),
                hidden_intent=run("hidden_intent", dict[str, IntentResult], self._hidden_intent),
                boundaries=run("boundaries", BoundaryResult, self._boundaries),
                projections=run("projections", dict[str, Projections], self._projections),
                scenarios={name: finish() for name, finish in known.items()},
                new_visitors={name: finish() for name, finish in new.items()},
                # Last, when nothing runs beside it: it is a time.
                decoding=run("decoding", dict[str, DecodingTime], self._decoding),
                fold_models={name: len(each) for name, each in self._systems.fold_models.items()},
                data=DataFacts(manifest.get("counts", {}), manifest.get("settings", {})),
                systems=SystemNames(tuple(self._systems.models), tuple(self._systems.features)),
                settings=self._settings,
                versions=versions(),
                training=training,
                seconds=self._store.seconds,
            )

    def learning_curve(self, folder: Path, models: Mapping[str, SystemSource]) -> LearningCurve:
        """How everything depends on the number of background sessions."""
        settings = CurveSettings(
            replace(self._ranking, runs={}, groups={}, context_lengths=False),
            self._settings.generation_contexts,
            self._settings.learning_curve_config,
        )

        def compute() -> LearningCurve:
            return learning_curve(self._data, folder, models, settings, self._steps)

        return self._store.run("learning_curve", LearningCurve, compute)

    def _known_visitors(self, train: Train) -> dict[str, Finish[ScenarioResult]]:
        if self._settings.visitors == "new":
            return {}
        evaluation = self._taught(self._evaluation)
        if self._settings.earlier_queries:
            earlier = read_earlier_queries(self._data, self._settings.earlier_queries)
            evaluation = replace(evaluation, earlier=earlier)
        return self._scenarios("", evaluation, self._systems, train)

    def _taught(self, evaluation: EvaluationData) -> EvaluationData:
        """With more cases for the rankers to learn from, if the settings say so."""
        every = self._settings.ranker_positions == "every"
        return with_every_position(evaluation, self._data) if every else evaluation

    def _new_visitors(self, train: Train) -> dict[str, Finish[ScenarioResult]]:
        if self._settings.visitors == "known":
            return {}
        evaluation = self._evaluation
        if self._settings.new_visitor_cases == "all":
            evaluation = with_all_sessions(evaluation, self._data)
        evaluation = self._taught(evaluation)
        evaluation = as_new_visitors(evaluation, self._data, self._out / "count_folds")
        systems = self._systems.for_new_visitors()
        return self._scenarios("new_", evaluation, systems, train)

    def _scenarios(
        self, prefix: str, evaluation: EvaluationData, systems: Systems, train: Train
    ) -> dict[str, Finish[ScenarioResult]]:
        """Begin each scenario, and finish those before it whose rankers are ready."""
        begun: dict[str, Finish[ScenarioResult]] = {}
        for name in self._settings.scenarios:
            start = partial(
                begin_scenario, name, evaluation, systems, self._ranking, self._out / "trec",
                self._steps, train,
            )  # fmt: skip
            begun[name] = self._store.begin(f"{prefix}{name}", ScenarioResult, start)
            self._begun.append(begun[name])
            for each in self._begun:
                if each.ready():
                    each()
        return begun

    def _generation(self) -> GenerationResult:
        cases = self._cases(self._settings.generation_contexts)
        return run_generation(
            self._systems.suggesters, cases, self._evaluation.background, self._steps
        )

    def _cases(self, contexts: int) -> list[GenerationCase]:
        sessions, background = self._evaluation.sessions["test"], self._evaluation.background
        return sample_contexts(sessions, background, contexts, self._settings.seed)

    def _completion(self) -> CompletionResult:
        cases = self._cases(self._settings.completion_contexts)
        return run_completion(self._systems.suggesters, cases, self._steps)

    def _paper_examples(self) -> dict[str, PaperExamples]:
        self._steps.begin("the paper's examples")
        return paper_examples(self._systems.models)

    def _ngrams(self) -> dict[str, tuple[NgramPerplexity, ...]]:
        """In the vocabulary of every model under study that has one."""
        self._steps.begin("n-grams")
        return {
            name: ngram_perplexities(self._data, model.model.vocabulary, self._steps.track(name))
            for name, model in self._systems.models.items()
            if isinstance(model, Embedder)
        }

    def _samples(self) -> SampleTable:
        self._steps.begin("samples")
        return sample_suggestions(
            self._systems.suggesters, self._evaluation.sessions["test"], self._settings.seed
        )

    def _gates(self) -> dict[str, GateComparison | GateResult]:
        self._steps.begin("update gates")
        noise = Noise(self._evaluation.background, self._settings.seed)
        sessions = self._evaluation.sessions["test"][: self._settings.gate_contexts]
        return {
            name: gate_result(model, sessions, noise, self._steps.track(name))
            for name, model in self._gated.items()
        }

    def _hidden_intent(self) -> dict[str, IntentResult]:
        """Of every system under study; empty unless the log is a made-up one."""
        self._steps.begin("hidden intent")
        sessions = self._evaluation.sessions["test"]
        found = {
            name: intent_result(model, sessions, track=self._steps.track(name))
            for name, model in self._systems.models.items()
        }
        return {name: result for name, result in found.items() if result is not None}

    def _boundaries(self) -> BoundaryResult:
        self._steps.begin("session boundaries")
        tuning, test = read_gaps(
            self._data, self._settings.boundary_queries, self._settings.boundary_labels
        )
        return boundary_result(tuning, test, self._gated, self._steps.track("gates"))

    def _projections(self) -> dict[str, Projections]:
        self._steps.begin("projections")
        return {
            name: projections(model, self._data, self._settings.seed)
            for name, model in self._systems.models.items()
            if isinstance(model, Embedder)
        }

    def _decoding(self) -> dict[str, DecodingTime]:
        self._steps.begin("decoding time")
        return {
            name: decoding_time(model, self._evaluation.sessions["test"])
            for name, model in self._systems.models.items()
            if isinstance(model, Decoding)
        }

    @property
    def _gated(self) -> dict[str, Gated]:
        models = self._systems.models.items()
        return {name: model for name, model in models if isinstance(model, Gated)}

"""The paper's experiments on a prepared log: all steps, their results, one report folder."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, get_type_hints

from nextquery.artifacts import check_target, versions, write_manifest, write_text
from nextquery.errors import InputError
from nextquery.evaluation.learning_curve import LearningCurve, learning_curve
from nextquery.evaluation.paper import TrainingFacts, training_table
from nextquery.evaluation.probes.table import PROBES, Probe, ProbeInput
from nextquery.evaluation.rankers import RankerProcesses, Train
from nextquery.evaluation.report.page import write_report
from nextquery.evaluation.results import DataFacts, ExperimentResults, SystemNames
from nextquery.evaluation.scenario_features import (
    EvaluationData,
    as_new_visitors,
    read_earlier_queries,
    read_evaluation_data,
    with_all_sessions,
    with_every_position,
)
from nextquery.evaluation.scenario_run import ScenarioResult, begin_scenario, read_user_groups
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import Finish, Steps, StepStore, show_steps, to_json
from nextquery.evaluation.systems import (
    Systems,
    SystemSource,
    config_identity,
    file_identity,
    identity,
    open_systems,
    train_fold_models,
)
from nextquery.inference.native import native_library, usual_threads
from nextquery.logs.data_folder import PreparedData
from nextquery.text.vectors import encoder_identity, import_encoder


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
        labels, config = settings.boundary_labels, settings.learning_curve_config
        # What cannot be read is refused before the first step.
        read_user_groups(settings.users_apart)
        self._labels = None if labels is None else file_identity("boundary_labels", labels)
        self._curve_config = None if config is None else config_identity(config)
        self._begun: list[Finish[ScenarioResult]] = []
        self._evaluation: EvaluationData = read_evaluation_data(data)
        self._probe_input = ProbeInput(data, systems, self._evaluation, settings, steps)

    def results(self, training: Mapping[str, TrainingFacts]) -> ExperimentResults:
        """Every step's result, with the facts that training left in the model folders.

        Rankers are trained in separate processes while the steps that need none run here.
        """
        manifest = self._data.artifact.manifest
        with RankerProcesses() as processes:
            known: dict[str, Finish[ScenarioResult]] = {}
            new: dict[str, Finish[ScenarioResult]] = {}
            if self._settings.visitors != "new":
                known = self._scenarios("", self._known_visitors(), self._systems, processes.train)
            if self._settings.visitors != "known":
                systems = self._systems.for_new_visitors()
                new = self._scenarios("new_", self._new_visitors(), systems, processes.train)
            probes = {probe.name: self._probe(probe) for probe in PROBES if not probe.timed}
            scenarios = {name: finish.result() for name, finish in known.items()}
            new_visitors = {name: finish.result() for name, finish in new.items()}
            # Last, when nothing else runs.
            probes |= {probe.name: self._probe(probe) for probe in PROBES if probe.timed}
            return ExperimentResults(
                **probes,
                scenarios=scenarios,
                new_visitors=new_visitors,
                fold_models={
                    name: len(models) for name, models in self._systems.fold_models.items()
                },
                data=DataFacts(manifest.get("counts", {}), manifest.get("settings", {})),
                systems=SystemNames(tuple(self._systems.models), tuple(self._systems.features)),
                settings=self._settings,
                versions=versions(),
                training=training,
                seconds=self._store.seconds,
            )

    def _probe(self, probe: Probe) -> Any:
        """The result of a probe, an earlier run's if there is one."""

        def run() -> Any:
            self._steps.begin(probe.name.replace("_", " "))
            return probe.run(self._probe_input)

        uses = self._labels if probe.name == "boundaries" else None
        return self._store.run(probe.name, RESULT_TYPES[probe.name], run, uses)

    def learning_curve(self, folder: Path, models: Mapping[str, SystemSource]) -> LearningCurve:
        """How everything depends on the number of background sessions."""
        compute = partial(learning_curve, self._data, folder, models, self._settings, self._steps)
        return self._store.run("learning_curve", LearningCurve, compute, self._curve_config)

    def _known_visitors(self) -> EvaluationData:
        evaluation = self._with_ranker_positions(self._evaluation)
        if self._settings.earlier_queries:
            earlier = read_earlier_queries(self._data, self._settings.earlier_queries)
            evaluation = replace(evaluation, earlier=earlier)
        return evaluation

    def _new_visitors(self) -> EvaluationData:
        evaluation = self._evaluation
        if self._settings.new_visitor_cases == "all":
            evaluation = with_all_sessions(evaluation, self._data)
        evaluation = self._with_ranker_positions(evaluation)
        return as_new_visitors(evaluation, self._data, self._out / "count_folds")

    def _with_ranker_positions(self, evaluation: EvaluationData) -> EvaluationData:
        """With more cases for the rankers to learn from, if the settings say so."""
        every = self._settings.ranker_positions == "every"
        return with_every_position(evaluation, self._data) if every else evaluation

    def _scenarios(
        self, prefix: str, evaluation: EvaluationData, systems: Systems, train: Train
    ) -> dict[str, Finish[ScenarioResult]]:
        """Begin each scenario, and finish those before it whose rankers are ready."""
        begun: dict[str, Finish[ScenarioResult]] = {}
        for name in self._settings.scenarios:
            start = partial(
                begin_scenario, name, evaluation, systems, self._settings, self._out / "trec",
                self._steps, train,
            )  # fmt: skip
            step = f"{prefix}{name}"
            uses = scenario_files(step, self._settings)
            begun[name] = self._store.begin(step, ScenarioResult, start, uses)
            self._begun.append(begun[name])
            for finish in self._begun:
                if finish.ready():
                    finish.result()
        return begun


RESULT_TYPES = get_type_hints(ExperimentResults)

KIND = "report"

FREE = (
    *("scenarios", "visitors", "learning_curve"),
    *("boundary_labels", "learning_curve_config", "runs", "users_apart", "exports", "encoder"),
)
"""Settings that decide which steps there are, or what single steps use: those count by content."""


def run_experiment(
    data: PreparedData,
    out: Path,
    models: Mapping[str, SystemSource],
    *,
    features: Mapping[str, SystemSource] | None = None,
    settings: ExperimentSettings | None = None,
) -> ExperimentResults:
    """Run every step that is not there yet, write the report, and return its results."""
    features = features or {}
    settings = settings or ExperimentSettings()
    check_target(out, KIND, in_place=True)
    out.mkdir(parents=True, exist_ok=True)
    write_manifest(out, KIND, {"complete": False})
    encoder, encoded = None, list[str]()
    if settings.encoder:
        encoder = import_encoder(settings.encoder)
        # It is asked once, before any work: the vectors of some frequent words identify it.
        encoded = encoder_identity(settings.encoder, encoder, data.words()[:50] or ["word"])
    folds = _fold_models(data, out, models, settings)
    basis = _basis(data, {**models, **features}, folds, settings, encoded)
    store = StepStore(out, basis, data.artifact.check_current)
    fitted = out / "count_models"
    with (
        show_steps() as steps,
        open_systems(data, fitted, models, features, folds, encoder=encoder) as systems,
    ):
        run = ExperimentRun(data.within_sessions(), systems, settings, out, store, steps)
        results = run.results(training_table(models))
        if settings.learning_curve:
            curve = run.learning_curve(out / "learning_curve", models)
            results = replace(results, learning_curve=curve)
    document = to_json(results)
    write_text(out / "results.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    write_report(out, results)
    made_with = provenance(data, {**models, **features})
    write_manifest(out, KIND, {"complete": True, "settings": document["settings"], **made_with})
    return results


PACKAGES = ("lightgbm", "scikit-learn", "scipy", "numpy", "polars", "torch", "nextquery-native")


def provenance(data: PreparedData, sources: Mapping[str, SystemSource]) -> dict[str, Any]:
    """What a report was made with, for its manifest: machine, packages, data and models."""
    installed = {
        distribution.metadata["Name"].lower(): distribution.version
        for distribution in metadata.distributions()
    }
    return {
        "machine": {
            "cores": os.cpu_count(),
            "threads": usual_threads(),
            "native": native_library() is not None,
            "processor": platform.machine(),
            "python": platform.python_version(),
        },
        "packages": {name: installed[name] for name in PACKAGES if name in installed},
        "data": {
            "files": data.artifact.manifest["files"],
            "logs": [
                {key: log.get(key) for key in ("rows", "size", "sha256")}
                for log in data.artifact.manifest.get("logs", [])
            ],
        },
        "models": {name: identity(source) for name, source in sources.items()},
    }


def _fold_models(
    data: PreparedData,
    out: Path,
    models: Mapping[str, SystemSource],
    settings: ExperimentSettings,
) -> dict[str, list[Path]]:
    """Train the models that replace a model under study when the visitor is new."""
    unknown = settings.fold_configs.keys() - models.keys()
    if unknown:
        raise InputError(f"`fold_configs` {min(unknown)!r}: no model under study has this name")
    if settings.visitors == "known":
        return {}
    for name, source in models.items():
        given = isinstance(source, Path | tuple) and name not in settings.fold_configs
        if given and settings.new_visitor_cases == "all":
            raise InputError(
                "`new_visitor_cases` all: the background's sessions are tested, too, and the model "
                f"{name!r} has learnt from them; give it a config in `fold_configs`, or take `test`"
            )
    return {
        name: train_fold_models(data, out / "folds" / name, config, settings.folds)
        for name, config in settings.fold_configs.items()
    }


def scenario_files(step: str, settings: ExperimentSettings) -> list[Any]:
    """What a scenario uses in addition to the basis of all steps: files by their content."""
    runs = [
        [name, file_identity("runs", path)]
        for name, paths in settings.run_files().items()
        for path in paths
        if path.name.split(".")[0] == step
    ]
    apart = {
        name: file_identity("users_apart", path) for name, path in settings.users_apart.items()
    }
    return [runs, apart, sorted(settings.exports)]


def _basis(
    data: PreparedData,
    sources: Mapping[str, SystemSource],
    folds: Mapping[str, list[Path]],
    settings: ExperimentSettings,
    encoder: list[str],
) -> Any | None:
    """What decides the results, or None if a system cannot be recognised."""
    identities = {name: identity(source) for name, source in sources.items()}
    folded = {name: [identity(path) for path in paths] for name, paths in folds.items()}
    if None in identities.values():
        return None
    return [
        data.artifact.manifest["files"],
        encoder,
        identities,
        folded,
        versions(),
        {name: str(value) for name, value in asdict(settings).items() if name not in FREE},
    ]

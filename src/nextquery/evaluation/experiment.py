"""The paper's experiments on any prepared log: all steps, their results, one report folder.

Knows which files a report has; the steps are in `experiment_run.py`.

    REPORT/results.json   every result, with counts, seeds, settings and versions
    REPORT/index.html     the same as a page that opens offline, with its plots as SVG
    REPORT/trec/          runs and qrels of every scenario's test cases
    REPORT/steps/         finished steps, from which an interrupted run goes on
    REPORT/folds/, REPORT/learning_curve/
                          models trained on some of the users, if any were asked for
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nextquery.artifacts import check_target, sha256, versions, write_manifest, write_text
from nextquery.errors import InputError
from nextquery.evaluation.experiment_run import ExperimentRun
from nextquery.evaluation.probes.training_table import training_table
from nextquery.evaluation.progress import show_steps
from nextquery.evaluation.record_json import to_json
from nextquery.evaluation.report.report_page import write_report
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.step_store import StepStore
from nextquery.evaluation.subset_models import train_fold_models
from nextquery.evaluation.systems import SystemSource, identity, open_systems
from nextquery.logs.data_folder import PreparedData

KIND = "report"
COUNT_MODELS = "count_models"
FOLD_MODELS = "folds"
CURVE_MODELS = "learning_curve"

FREE = ("scenarios", "visitors", "learning_curve")
"""Settings that decide which steps there are, not what a step gives."""


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
    check_target(out, KIND)
    out.mkdir(parents=True, exist_ok=True)
    write_manifest(out, KIND, {"complete": False})
    folds = _fold_models(data, out, models, settings)
    store = StepStore(out, _basis(data, {**models, **features}, folds, settings))
    with (
        show_steps() as steps,
        open_systems(
            data, out / COUNT_MODELS, models, features, folds, encoder=settings.encoder
        ) as systems,
    ):
        run = ExperimentRun(data, systems, settings, out, store, steps)
        results = run.results(training_table(models))
        if settings.learning_curve:
            curve = run.learning_curve(out / CURVE_MODELS, models)
            results = replace(results, learning_curve=curve)
    document = to_json(results)
    write_text(out / "results.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    write_report(out, results)
    write_manifest(out, KIND, {"complete": True, "settings": document["settings"]})
    return results


def _fold_models(
    data: PreparedData,
    out: Path,
    models: Mapping[str, SystemSource],
    settings: ExperimentSettings,
) -> dict[str, list[Path]]:
    """Train what stands in for a model under study when the visitor is new."""
    unknown = settings.fold_configs.keys() - models.keys()
    if unknown:
        raise InputError(f"`fold_configs` {min(unknown)!r}: no model under study has this name")
    if settings.visitors == "known":
        return {}
    if settings.new_visitor_cases == "all":
        _refuse_seen_sessions(models, settings)
    return {
        name: train_fold_models(data, out / FOLD_MODELS / name, config, settings.folds)
        for name, config in settings.fold_configs.items()
    }


def _refuse_seen_sessions(models: Mapping[str, SystemSource], settings: ExperimentSettings) -> None:
    """Refuse trained models without fold models: they would be tested on what they learnt from."""
    for name, source in models.items():
        if isinstance(source, Path | tuple) and name not in settings.fold_configs:
            raise InputError(
                "`new_visitor_cases` all: the background's sessions are tested, too, and the model "
                f"{name!r} has learnt from them; give it a config in `fold_configs`, or take `test`"
            )


def _basis(
    data: PreparedData,
    sources: Mapping[str, SystemSource],
    folds: Mapping[str, list[Path]],
    settings: ExperimentSettings,
) -> Any | None:
    """What decides the results, or None if a system cannot be recognised."""
    found = {name: identity(source) for name, source in sources.items()}
    folded = {name: [identity(path) for path in paths] for name, paths in folds.items()}
    if None in found.values():
        return None
    return [
        data.artifact.manifest["files"],
        {name: sha256(path) for name, path in settings.runs.items()},
        {name: sha256(path) for name, path in settings.users_apart.items()},
        found,
        folded,
        versions(),
        {name: str(value) for name, value in asdict(settings).items() if name not in FREE},
    ]

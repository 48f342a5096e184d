"""The paper's experiments on any prepared log: all steps, their figures, one report folder.

Knows which steps there are and what they need; each step is a module of its own.

    REPORT/results.json   every figure, with counts, seeds, settings and versions
    REPORT/index.html     the same as a page that opens offline, with its figures as SVG
    REPORT/trec/          runs and qrels of every scenario's test cases
    REPORT/steps/         finished steps, from which an interrupted run goes on
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nextquery.artifacts import check_target, versions, write_manifest, write_text
from nextquery.evaluation.experiment_run import ExperimentRun, ExperimentSettings
from nextquery.evaluation.probes.training_table import training_table
from nextquery.evaluation.progress import shown_steps
from nextquery.evaluation.report.report_page import write_report
from nextquery.evaluation.step_store import StepStore
from nextquery.evaluation.systems import Entry, gathered, identity
from nextquery.logs.data_folder import PreparedData

KIND = "report"
COUNTED = "count_models"


def run_experiment(
    data: PreparedData,
    out: Path,
    models: Mapping[str, Entry],
    *,
    features: Mapping[str, Entry] | None = None,
    settings: ExperimentSettings | None = None,
) -> dict[str, Any]:
    """Run every step that is not there yet, write the report, and return its figures."""
    features = features or {}
    settings = settings or ExperimentSettings()
    check_target(out)
    out.mkdir(parents=True, exist_ok=True)
    write_manifest(out, KIND, {"complete": False})
    store = StepStore(out, _basis(data, {**models, **features}, settings))
    with shown_steps() as steps, gathered(data, out / COUNTED, models, features) as contestants:
        run = ExperimentRun(data, contestants, settings, out, store, steps)
        results = run.results() | {"training": training_table(models)}
    write_text(out / "results.json", json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    write_report(out, results)
    write_manifest(out, KIND, {"complete": True, "settings": results["settings"]})
    return results


def _basis(
    data: PreparedData, entries: Mapping[str, Entry], settings: ExperimentSettings
) -> Any | None:
    """What decides the figures, or None if a system cannot be recognised."""
    found = {name: identity(entry) for name, entry in entries.items()}
    if None in found.values():
        return None
    return [
        data.artifact.manifest["files"],
        found,
        versions(),
        {name: str(value) for name, value in asdict(settings).items() if name != "scenarios"},
    ]

"""The runs for docs/results/leaderboard.md: three synthetic logs, all models.

Everything goes through the command line. What is there already is kept, so that a run which was
cut off continues. Times are CPU seconds of each command, since others may use the machine.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from research.commands import SCENARIOS, run

LOGS = {
    "first": ("--sessions", "20000", "--seed", "1"),
    "second": ("--sessions", "20000", "--seed", "2", "--extra-words", "300",
               "--satisfaction", "outcome"),
    "control": ("--sessions", "60000", "--seed", "1", "--shuffled"),
}  # fmt: skip
"""A log, one of another seed and shape, and one whose queries are dealt to sessions at random; it
is larger, since there few anchors have the 20 followers that the paper asks for."""
COUNT_MODELS = {
    "popularity": "popularity",
    "adj": "adjacency",
    "qvmm": "qvmm",
    "cacb": "cacb",
    "ss": "shortcuts",
}
FORMS = {"copying": ("train.epochs=4",), "plain": ("model.copy=false", "train.epochs=3")}
"""`tiny` for four epochs, and without copying, which learns in fewer epochs and steps."""
TRAINED = {"first": ("copying-1", "plain-1"), "second": ("copying-1", "plain-1"),
           "control": ("plain-1",)}  # fmt: skip
CONTROL_EPOCHS = "train.epochs=1"
"""There is nothing to learn in the control but how frequent words are."""
MEASURED = ("--visitors", "known", "--seeds", "2", "--ranker-cases", "1500",
            "--generation-contexts", "20", "--completion-contexts", "5")  # fmt: skip


def measure_all(work: Path) -> dict[str, Any]:
    """The results of every log, in the order of `LOGS`."""
    return {name: measure(work / name, name) for name in LOGS}


def measure(folder: Path, name: str) -> dict[str, Any]:
    """One log: its models, what each costs, and the experiment with all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    log, data, report = folder / "log.tsv", folder / "data", folder / "report"
    costs: dict[str, Any] = _read(folder / "costs.json")
    if not data.exists():
        run(["synth", str(log), *LOGS[name]])
        run(["prepare", str(log), "--out", str(data), "--no-spelling"])
    for model, kind in COUNT_MODELS.items():
        _make(folder, model, costs, ["fit", str(data), "--kind", kind])
    for model in TRAINED[name]:
        _make(folder, model, costs, ["train", str(data), "--config", "tiny", *_sets(name, model)])
    models = [f"--model={model}={folder / model}" for model in TRAINED[name]]
    kept = [f"--scenario={scenario}" for scenario in SCENARIOS]
    run(["experiment", str(data), *models, *kept, *MEASURED, "--out", str(report)])
    return {
        "log": " ".join(LOGS[name]),
        "costs": costs,
        **summarise(json.loads((report / "results.json").read_text())),
    }


def summarise(results: Mapping[str, Any]) -> dict[str, Any]:
    """Of a report the sessions of each split, and of each scenario its cases and every MRR."""
    scenarios = {
        name: {
            "cases": result["cases"]["test"],
            "mrr": {system: round(item["mrr"], 4) for system, item in result["systems"].items()},
        }
        for name, result in results["scenarios"].items()
    }
    return {"sessions": results["data"]["counts"]["sessions"], "scenarios": scenarios}


def _sets(log: str, model: str) -> list[str]:
    form, _, seed = model.partition("-")
    keys = [*FORMS[form], f"train.seed={seed}", *([CONTROL_EPOCHS] if log == "control" else [])]
    return [f"--set={key}" for key in keys]


def _make(folder: Path, model: str, costs: dict[str, Any], arguments: Sequence[str]) -> None:
    """Make a model unless it exists, and record its CPU seconds and megabytes."""
    made = folder / model
    if model in costs:
        return
    before = os.times()
    if not made.exists():
        run([*arguments, "--out", str(made)])
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    costs[model] = {"cpu_seconds": round(spent, 1), "mb": round(size / 1e6, 1)}
    (folder / "costs.json").write_text(json.dumps(costs, indent=1) + "\n")


def _read(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return document

"""The commands that make docs/results, in order; existing results are kept.

Everything goes through the command line, so that each figure of the page can be made by hand.
"""

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from research.curves import CurveWriter, watched
from research.summary import summarise
from research.tables import RESULTS, ROOT

SEEDS = (1, 2, 3)
SCENARIOS = ("next_query", "robust", "long_tail")

PLAIN = (
    "model.copy=false",
    "model.embedding_size=64",
    "model.query_size=128",
    "model.session_size=192",
    "train.batch_words=1024",
    "train.loss=sampled",
    "train.head_words=1000",
    "train.sampled_words=500",
    "train.validate_every=1000",
    "train.validation_sessions=3000",
    "train.decay=1.0",
)
"""Plain HRED on a synthetic log: what every form has in common, on top of `tiny`."""

FORMS = {
    "all": ("model.decoder_context=all",),
    "first": ("model.decoder_context=first", "train.optimiser=rmsprop", "train.rate=0.001"),
}
"""The decoder sees the session at every step; the paper's own form, which needs RMSProp."""

ADAM = {"first-adam": ("model.decoder_context=first", "train.optimiser=adam", "train.rate=0.003")}
"""The paper's own form with the optimiser that keeps it on its plateau."""

LOG = ("--sessions", "300000", "--seed", "1")
LATE = ("--split-at", "2006-04-30T08:53:44,2006-05-14T05:25:37,2006-05-28T12:00:00")
"""The same background and training part as by default, and a test part of 7,233 sessions."""


def synthetic(work: Path) -> None:
    """Plain HRED in both forms, three seeds each."""
    log, data, late = work / "log.tsv", work / "data", work / "data-late"
    make(log, ["synth", str(log), *LOG])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    make(late, ["prepare", str(log), "--out", str(late), "--no-spelling", *LATE])
    models = {
        f"{form}-{seed}": train_plain(work, data, form, seed) for form in FORMS for seed in SEEDS
    }
    save("synthetic", _measured(work, late, models))


def control(work: Path) -> None:
    """The same on a log whose queries are dealt to its sessions at random: one model."""
    log, data = work / "log.tsv", work / "data"
    make(log, ["synth", str(log), *LOG, "--shuffled"])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    models = {"all-1": train_plain(work, data, "all", 1, epochs=1)}
    save("control", _measured(work, data, models))


COPYING = ("--sessions", "122000", "--seed", "7")
"""About 10,000 test sessions."""
SOME_CASES = ("--seeds", "3", "--ranker-cases", "1500", "--test-users", "1500")


def copying(work: Path) -> None:
    """`tiny` with copying, two epochs; known visitors and new ones, cases of some users."""
    data, model = _copying_data(work), work / "tiny"
    sets = ["--config", "tiny", "--set", "train.epochs=2"]
    make(model, ["train", str(data), "--out", str(model), *sets])
    report = report_of(work / "report", [str(data), f"--model=hred={model}", *SOME_CASES])
    save("synthetic_copying", summarise(report))


def experiment_time(work: Path) -> None:
    """The time of an experiment with all defaults, by step.

    `small` is trained for a few steps only: how well it predicts does not change the time.
    """
    data, model, report = _copying_data(work), work / "small", work / "report-time"
    make(model, ["train", str(data), "--out", str(model), "--set", "train.max_steps=300"])
    if report.exists():
        raise InputError(f"{report}: exists; remove it, since finished steps take no time")
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    results = report_of(report, [str(data), f"--model=hred={model}"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = {
        "date": date.today().isoformat(),
        "model": "small with copying",
        "elapsed_s": round(time.monotonic() - start),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
        "peak_gb": round(after.ru_maxrss / 2**20, 1),
        "steps": seconds_by_step(results),
    }
    save("experiment_time", measured)


def _copying_data(work: Path) -> Path:
    log, data = work / "log.tsv", work / "data"
    make(log, ["synth", str(log), *COPYING])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    return data


def seconds_by_step(report: Mapping[str, Any]) -> dict[str, float]:
    """CPU seconds of each step of an experiment, rankers separately."""
    steps = dict(report["seconds"])
    for part, title in (("scenarios", ""), ("new_visitors", "new ")):
        for name, result in report[part].items():
            steps[f"{title}{name}: rankers"] = result.get("ranker_seconds", 0.0)
    return {name: round(seconds, 1) for name, seconds in steps.items()}


def _measured(work: Path, data: Path, models: Mapping[str, Path]) -> dict[str, Any]:
    """The aggregates of an experiment with these models, and how they learnt."""
    named = [f"--model={name}={folder}" for name, folder in models.items()]
    kept = [f"--scenario={name}" for name in SCENARIOS]
    options = ["--visitors", "known", "--seeds", "3", "--ranker-cases", "3000"]
    report = report_of(work / "report", [str(data), *named, *kept, *options])
    curves = {name: curve_of(work / f"{name}.curve.jsonl") for name in models}
    return {**summarise(report), "curves": curves}


def train_plain(work: Path, data: Path, form: str, seed: int, epochs: int = 3) -> Path:
    """One plain model, its hidden intent probed while it is trained."""
    folder = work / f"{form}-{seed}"
    keys = [*PLAIN, *(FORMS | ADAM)[form], f"train.epochs={epochs}", f"train.seed={seed}"]
    sets = [f"--set={key}" for key in keys]
    training = folder.with_name(f"{folder.name}.training")
    writer = CurveWriter(PreparedData(data), training, work / f"{folder.name}.curve.jsonl")
    with watched(writer):
        make(folder, ["train", str(data), "--out", str(folder), "--config", "tiny", *sets])
    return folder


def changed(name: str, changes: Mapping[str, str]) -> str:
    """The text of a shipped config with other values, by key.

    >>> changed("tiny", {"epochs": "2"}).count("\\nepochs = 2\\n")
    1
    """
    text = (ROOT / "configs" / f"{name}.toml").read_text()
    for key, value in changes.items():
        text, replaced = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text, count=1)
        if not replaced:
            raise KeyError(key)
    return text


def report_of(folder: Path, arguments: Sequence[str]) -> Any:
    """The results of an experiment; a stopped one is resumed."""
    run(["experiment", *arguments, "--out", str(folder)])
    return json.loads((folder / "results.json").read_text())


def make(target: Path, arguments: Sequence[str]) -> None:
    """Run the command that makes `target`, unless it exists."""
    if not target.exists():
        run(arguments)


def run(arguments: Sequence[str]) -> None:
    """Print and run one command."""
    print("nextquery", *arguments, flush=True)
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    subprocess.run([sys.executable, "-m", "nextquery", *arguments], check=True, env=environment)


def curve_of(file: Path) -> list[Any]:
    """The probe's results during a training."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def save(name: str, document: Any) -> None:
    """Write aggregates to docs/results."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")

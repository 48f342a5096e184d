"""The paper's pipeline on the largest synthetic log: time and memory of every command.

    python -m research reproduction WORK            # hours; finished commands are not repeated
    python -m research reproduction WORK NAME...    # only these commands

2 million sessions with 90,000 words, configs/paper.toml. The training is stopped by Ctrl-C once and
resumed. The experiment uses the model of the first stop, so that it can run next to the second part
of the training. docs/how-to/reproduce-the-paper.md shows the result.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from nextquery.errors import InputError
from nextquery.training.trainer import read_metrics
from research.commands import save
from research.tables import RESULTS, ROOT, read

SYNTH = ("--sessions", "2000000", "--extra-words", "200000", "--seed", "1")
OFTEN = ("--set", "train.validate_every=100", "--set", "train.validation_sessions=200")
"""A training of hours, not days, should show some validations."""
FEW = ("--visitors", "known", "--scenario", "next_query", "--scenario", "robust",
       "--test-users", "300", "--ranker-cases", "300", "--seeds", "1",
       "--generation-contexts", "20", "--completion-contexts", "10")  # fmt: skip
"""The part of the experiment that an unfinished model deserves."""
CONTEXT = ("sofa cover", "sofa stain remover")
MINUTES = {"train": 25, "resume": 97}
"""The training is stopped by Ctrl-C after these minutes."""
STOPPED = 124
"""The exit code of `timeout` when it has stopped a command."""
NAMES = ("synth", "prepare", "inspect", "train", "end", "adjacency", "qvmm", "suggest",
         "experiment", "resume")  # fmt: skip


def study(work: Path, names: Sequence[str] = NAMES) -> None:
    """Run the commands, then write docs/results/reproduction.json."""
    commands = commands_of(work)
    for name in names:
        if name not in commands:
            raise InputError(f"{name!r}: must be one of {', '.join(commands)}")
        if name == "end":
            _copy_training(work)
        if name == "train" and (work / "paper-model.training").exists():  # was killed
            commands[name].append("--resume")
        measure(work, name, commands[name], MINUTES.get(name))
    save("reproduction", collect(work))


def commands_of(work: Path) -> dict[str, list[str]]:
    """The arguments of every command, by name and in order."""
    log, data, model, early, report = (
        str(work / name) for name in ("full.tsv.gz", "data", "paper-model", "early-model", "report")
    )
    train = ["train", data, "--config", "paper", *OFTEN]
    return {
        "synth": ["synth", log, *SYNTH],
        "prepare": ["prepare", log, "--out", data, "--holdout-users", "0.02"],
        "inspect": ["inspect", data],
        "train": [*train, "--out", model],
        "end": [*train, "--out", early, "--resume", "--set", "train.max_steps=1"],
        "adjacency": ["fit", data, "--kind", "adjacency", "--out", str(work / "adjacency")],
        "qvmm": ["fit", data, "--kind", "qvmm", "--out", str(work / "qvmm")],
        "suggest": ["suggest", early, *CONTEXT, "--preset", "paper"],
        "experiment": ["experiment", data, "--model", f"hred={early}", "--out", report, *FEW],
        "resume": [*train, "--out", model, "--resume"],
    }


def _copy_training(work: Path) -> None:
    """Copy the stopped training: the copy becomes a model folder, the training is resumed."""
    copy = work / "early-model.training"
    if not copy.exists() and not (work / "early-model").exists():
        shutil.copytree(work / "paper-model.training", copy)


def measure(work: Path, name: str, arguments: Sequence[str], minutes: int | None = None) -> None:
    """Run a command under `time -v`, unless it was run; stop it by SIGINT after some minutes."""
    record = work / f"{name}.time"
    if record.exists():
        return
    limit = [] if minutes is None else ["timeout", "--signal=INT", f"{minutes}m"]
    command = [*limit, sys.executable, "-m", "nextquery", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    unfinished = record.with_suffix(".unfinished")
    timed = ["/usr/bin/time", "-v", "-o", str(unfinished), *command]
    status = subprocess.run(timed, env=environment, check=False).returncode
    if status != 0 and not (limit and status == STOPPED):
        raise subprocess.CalledProcessError(status, timed)
    unfinished.rename(record)


def collect(work: Path) -> dict[str, Any]:
    """Time and memory of every command, and the curve of the training.

    What was not run in this folder keeps the figures of an earlier run.
    """
    records = {name: work / f"{name}.time" for name in NAMES}
    measured = {name: read_time(path.read_text()) for name, path in records.items()
                if path.exists()}  # fmt: skip
    earlier = read("reproduction") if (RESULTS / "reproduction.json").exists() else {}
    manifest = json.loads((work / "data" / "manifest.json").read_text())
    training = earlier.get("training")
    if training is None or "train" in measured:
        metrics = read_metrics(work / "paper-model.training" / "metrics.jsonl")
        training = training_curve(list(metrics))
    return {
        "date": date.today().isoformat(),
        "commands": {**earlier.get("commands", {}), **measured},
        "counts": {key: manifest["counts"][key] for key in ("rows_read", "users", "sessions")},
        "words": sum(1 for _ in (work / "data" / "vocabulary.txt").open()),
        "training": training,
    }


def read_time(text: str) -> dict[str, float]:
    """CPU seconds, seconds and megabytes of what `/usr/bin/time -v` wrote.

    >>> lines = ["User time (seconds): 90.5", "System time (seconds): 9.5",
    ...     "Elapsed (wall clock) time (h:mm:ss or m:ss): 1:02:03",
    ...     "Maximum resident set size (kbytes): 2048000"]
    >>> read_time("\\n".join(lines))
    {'cpu_s': 100.0, 'elapsed_s': 3723.0, 'peak_mb': 2000.0}
    """
    values = dict(re.findall(r"^\s*(.+): ([\d:.]+)$", text, re.MULTILINE))
    elapsed = 0.0
    for part in values["Elapsed (wall clock) time (h:mm:ss or m:ss)"].split(":"):
        elapsed = elapsed * 60 + float(part)
    return {
        "cpu_s": round(
            float(values["User time (seconds)"]) + float(values["System time (seconds)"]), 1
        ),
        "elapsed_s": elapsed,
        "peak_mb": round(float(values["Maximum resident set size (kbytes)"]) / 1024, 1),
    }


def training_curve(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The last step, the words and seconds up to it, and every validation."""
    steps = [line for line in lines if "loss" in line]
    return {
        "steps": steps[-1]["step"] if steps else 0,
        "last": {key: steps[-1][key] for key in ("loss", "words_per_second") if key in steps[-1]},
        "validation": [
            [line["step"], round(line["validation_perplexity"], 1)]
            for line in lines
            if "validation_perplexity" in line
        ],
    }

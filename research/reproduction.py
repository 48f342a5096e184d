"""The paper's pipeline on the largest synthetic log: time and memory of every command.

    python -m research reproduction WORK     # hours; finished commands are not repeated

2 million sessions with 90,000 words, configs/paper.toml. The training is stopped by Ctrl-C once and
resumed; `minutes` says when it ends. docs/how-to/reproduce-the-paper.md shows the result.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from research.commands import save
from research.tables import ROOT

SYNTH = ("--sessions", "2000000", "--extra-words", "200000", "--seed", "1")
OFTEN = ("--set", "train.validate_every=100", "--set", "train.validation_sessions=200")
"""A training of hours, not days, should show some validations."""
FEW = ("--scenario", "next_query", "--scenario", "robust", "--test-users", "2000", "--seeds", "2",
       "--ranker-cases", "2000", "--visitors", "known",
       "--generation-contexts", "20", "--completion-contexts", "10")  # fmt: skip
"""The part of the experiment that was affordable."""
MINUTES = (40, 75)
"""The training is stopped after the first and ended after the second."""


def study(work: Path) -> None:
    """Run every command, then write docs/results/reproduction.json."""
    data, model, report = (str(work / name) for name in ("data", "paper-model", "report"))
    log = str(work / "full.tsv.gz")
    train = ["train", data, "--out", model, "--config", "paper", *OFTEN]
    measure(work, "synth", ["synth", log, *SYNTH])
    measure(work, "prepare", ["prepare", log, "--out", data, "--holdout-users", "0.02"])
    measure(work, "train", train, minutes=MINUTES[0])
    measure(work, "resume", [*train, "--resume"], minutes=MINUTES[1])
    measure(work, "end", [*train, "--resume", "--set", "train.max_steps=1"])
    measure(
        work, "experiment", ["experiment", data, "--model", f"hred={model}", "--out", report, *FEW]
    )
    save("reproduction", collect(work))


def measure(work: Path, name: str, arguments: Sequence[str], minutes: int | None = None) -> None:
    """Run a command under `time -v`, unless it was run; stop it by SIGINT after some minutes."""
    record = work / f"{name}.time"
    if record.exists():
        return
    limit = [] if minutes is None else ["timeout", "--signal=INT", f"{minutes}m"]
    command = [*limit, sys.executable, "-m", "nextquery", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        ["/usr/bin/time", "-v", "-o", str(record), *command], env=environment, check=False
    )


def collect(work: Path) -> dict[str, Any]:
    """Time and memory of every command that ran, and the curve of the training."""
    records = {path.stem: path.read_text() for path in sorted(work.glob("*.time"))}
    commands = {name: read_time(text) for name, text in records.items() if text}  # else running
    manifest = json.loads((work / "data" / "manifest.json").read_text())
    lines = (work / "metrics.jsonl").read_text().splitlines()
    return {
        "commands": commands,
        "counts": {key: manifest["counts"][key] for key in ("rows_read", "users", "sessions")},
        "words": sum(1 for _ in (work / "data" / "vocabulary.txt").open()),
        "training": training_curve([json.loads(line) for line in lines]),
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

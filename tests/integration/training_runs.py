"""Running `nextquery train` as a user does: a process of its own, watched and stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Dropout, sampled words and copying are all on: nothing random may be left out of a resume.
SETTINGS = [
    "--config=tiny",
    "--set=model.embedding_size=12",
    "--set=model.query_size=16",
    "--set=model.session_size=20",
    "--set=model.dropout=0.2",
    "--set=model.character_ngrams=200",
    "--set=train.loss=sampled",
    "--set=train.head_words=20",
    "--set=train.sampled_words=40",
    "--set=train.batch_words=96",
    "--set=train.epochs=2",
    "--set=train.checkpoint_every=5",
    "--set=train.report_every=1",
]


def folder_of_run(out: Path) -> Path:
    return out.with_name(f"{out.name}.training")


def start(data: Path, out: Path, *more: str, launcher: tuple[str, ...] = ()) -> Any:
    command = [sys.executable, *(launcher or ("-m",)), "nextquery", "train", str(data)]
    return subprocess.Popen(
        [*command, "--out", str(out), *SETTINGS, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: Any) -> tuple[int, str, str]:
    """Wait for the end: exit code, stdout, stderr."""
    output, errors = process.communicate(timeout=250)
    return process.returncode, output, errors


def train(data: Path, out: Path, *more: str) -> tuple[int, str, str]:
    return finish(start(data, out, *more))


def wait_until(process: Any, condition: Callable[[], bool]) -> None:
    """Look again until it is so, as long as the process runs."""
    end = time.monotonic() + 250
    while not condition():
        assert process.poll() is None, finish(process)
        assert time.monotonic() < end
        time.sleep(0.002)


def steps_reported(out: Path) -> int:
    file = folder_of_run(out) / "metrics.jsonl"
    return file.read_text().count('"loss"') if file.exists() else 0


def stop_after(process: Any, out: Path, steps: int, number: int = signal.SIGKILL) -> None:
    wait_until(process, lambda: steps_reported(out) >= steps)
    process.send_signal(number)


def checkpoints(out: Path) -> list[Path]:
    return sorted((folder_of_run(out) / "checkpoints").glob("step-*"))


def losses(model: Path) -> list[tuple[int, float]]:
    """Every loss, as the very float that was written."""
    entries = [json.loads(line) for line in (model / "metrics.jsonl").read_text().splitlines()]
    return [(entry["step"], entry.get("loss", entry.get("validation_nll"))) for entry in entries]

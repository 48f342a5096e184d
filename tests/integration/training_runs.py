"""Running `nextquery train` as a user does: a process of its own, watched and stopped."""

import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

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


def run_command(words: list[str], output: str, errors: str) -> None:
    """Run a command in this process, with its output in two files."""
    for name, stream in ((output, sys.stdout), (errors, sys.stderr)):
        with open(name, "wb") as file:  # noqa: PTH123
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["nextquery", *words]
    from nextquery.cli.entry import run

    run()


class Job(Protocol):
    """A training that runs."""

    def poll(self) -> int | None:
        """The exit code; None while it runs."""

    def send_signal(self, number: int) -> None: ...

    def finish(self) -> tuple[int, str, str]:
        """Wait for the end: exit code, stdout, stderr."""
        ...


class TrainingProcess:
    """`nextquery train` in a process forked from one that has imported PyTorch.

    To import it takes longer than these trainings.
    """

    _forks = multiprocessing.get_context("forkserver")

    def __init__(self, words: list[str], before: Callable[[], None] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nextquery-training-"))
        files = str(self._folder / "output"), str(self._folder / "errors")
        self._forks.set_forkserver_preload(["tests.integration.warm_training"])
        self._process = self._forks.Process(target=_run, args=(before, words, *files))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def finish(self) -> tuple[int, str, str]:
        """Wait for the end: exit code, stdout, stderr."""
        self._process.join(1000)
        code = self._process.exitcode
        assert code is not None, "still at work"
        output, errors = ((self._folder / name).read_text() for name in ("output", "errors"))
        shutil.rmtree(self._folder)
        return code, output, errors


def _run(before: Callable[[], None] | None, words: list[str], output: str, errors: str) -> None:
    if before is not None:
        before()
    run_command(words, output, errors)


def start(
    data: Path, out: Path, *more: str, before: Callable[[], None] | None = None
) -> TrainingProcess:
    """Begin a training; `before` runs in its process first."""
    return TrainingProcess(["train", str(data), "--out", str(out), *SETTINGS, *more], before)


def train(
    data: Path, out: Path, *more: str, before: Callable[[], None] | None = None
) -> tuple[int, str, str]:
    return start(data, out, *more, before=before).finish()


def write_no_bytecode() -> None:
    """For a process whose files are limited in size: the limit would truncate bytecode."""
    sys.dont_write_bytecode = True


def killed_before_the_clean_up() -> None:
    """Let the training end where it removes the folder of the run."""
    import nextquery.training.run as training

    training.remove = lambda folder: os._exit(9)


def killed_in_the_clean_up() -> None:
    import nextquery.training.run as training

    def remove(folder: Path) -> None:
        away = folder.with_name(f".{folder.name}.0123abcd.finished")
        folder.rename(away)
        next(away.rglob("*.safetensors")).unlink()
        os._exit(9)

    training.remove = remove


def wait_until(process: Job, condition: Callable[[], bool]) -> None:
    """Look again until it is so, as long as the process runs."""
    end = time.monotonic() + 1000
    while not condition():
        assert process.poll() is None, process.finish()
        assert time.monotonic() < end
        time.sleep(0.002)


def steps_reported(out: Path) -> int:
    file = folder_of_run(out) / "metrics.jsonl"
    return file.read_text().count('"loss"') if file.exists() else 0


def stop_after(process: Job, out: Path, steps: int, number: int = signal.SIGKILL) -> None:
    wait_until(process, lambda: steps_reported(out) >= steps)
    process.send_signal(number)


def checkpoints(out: Path) -> list[Path]:
    return sorted((folder_of_run(out) / "checkpoints").glob("step-*"))


def losses(model: Path) -> list[tuple[int, float]]:
    """Every loss, as the very float that was written."""
    entries = [json.loads(line) for line in (model / "metrics.jsonl").read_text().splitlines()]
    return [(entry["step"], entry.get("loss", entry.get("validation_nll"))) for entry in entries]

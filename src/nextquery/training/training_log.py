"""What a run tells: `metrics.jsonl`, TensorBoard events and the progress bar. Decides nothing."""

import json
import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch.utils.tensorboard import SummaryWriter

METRICS, EVENTS = "metrics.jsonl", "events"


class TrainingLog(AbstractContextManager["TrainingLog"]):
    """Takes reports of steps and validations; keeps those up to `step` of an earlier run."""

    def __init__(self, folder: Path, step: int, steps_per_epoch: int, epochs: int) -> None:
        self._file = folder / METRICS
        kept = [line for line in read_metrics(self._file) if line["step"] <= step]
        self._file.write_text("".join(_line(entry) for entry in kept), encoding="utf-8")
        self._stream = self._file.open("a", encoding="utf-8")
        self._events = SummaryWriter(str(folder / EVENTS), purge_step=step + 1)
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/" + str(epochs)),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not sys.stderr.isatty(),
        )
        total = steps_per_epoch * epochs
        self._task = self._bar.add_task("", total=total, completed=step, epoch=1, facts="")
        self._facts = {"training perplexity": "-", "validation perplexity": "-", "words/s": "-"}

    def __enter__(self) -> "TrainingLog":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        self._stream.close()
        self._events.close()

    def advance(self, step: int, epoch: int) -> None:
        """Move the progress bar."""
        self._bar.update(self._task, completed=step, epoch=epoch + 1, facts=self._told())

    def report(self, step: int, values: dict[str, Any]) -> None:
        """Write a report of the steps since the last one."""
        self._facts["training perplexity"] = f"{math.exp(min(values['loss'], 50)):.1f}"
        self._facts["words/s"] = f"{values['words_per_second']:.0f}"
        self._write(step, values, "training")

    def validation(self, step: int, values: dict[str, Any]) -> None:
        """Write the result of a validation; without a terminal it is also a line on stderr."""
        self._facts["validation perplexity"] = f"{values['validation_perplexity']:.1f}"
        self._write(step, values, "validation")
        if not sys.stderr.isatty():
            self.say(f"step {step}: epoch {values['epoch']}, {self._told()}")

    def say(self, text: str) -> None:
        """Print a line on stderr, above the progress bar."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def _told(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._facts.items())

    def _write(self, step: int, values: dict[str, Any], group: str) -> None:
        self._stream.write(_line({"step": step, **values}))
        self._stream.flush()
        for name, value in values.items():
            self._events.add_scalar(f"{group}/{name}", value, step)


def read_metrics(file: Path) -> Iterator[dict[str, Any]]:
    """The entries of a `metrics.jsonl`; a last line cut off by a crash is left out."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"

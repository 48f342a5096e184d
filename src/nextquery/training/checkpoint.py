"""Checkpoints: everything a run needs to go on as if it had never stopped.

Each is an artifact folder `step-N` with the weights, the optimiser's state and the run's position,
written beside its place, flushed to disk and renamed, with the SHA-256 of every file. Random
numbers and the order of the data are functions of seed, epoch and step and need no file. Knows
nothing of how training works.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nextquery.artifacts import open_artifact, publish, write_text
from nextquery.errors import ArtifactError, ChecksumError, TrainingError

KIND = "checkpoint"
WEIGHTS, OPTIMISER, RUN = "model.safetensors", "optimiser.safetensors", "run.json"
_KEPT = 2
"""How many of the newest checkpoints are kept: if one is damaged, the one before it is used."""


@dataclass(frozen=True)
class Position:
    """Where a run stands: all numbers that the next step depends on or that reports add up."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """The next batch of the epoch."""
    rate: float = 0.0
    words: int = 0
    """Symbols trained on."""
    seconds: float = 0.0
    best_step: int = 0
    """The checkpoint of the best validation; 0: none yet."""
    best_nll: float | None = None
    stale: int = 0
    """Validations since the best one."""
    validated_step: int = 0
    """The last step after which there was a validation."""
    loss_sum: float = 0.0
    """Since the last report."""
    loss_words: int = 0

    def after(self, **changes: Any) -> "Position":
        """The position with some numbers changed."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and found whole."""

    position: Position
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]


class CheckpointFolder:
    """The checkpoints of one run."""

    def __init__(
        self, path: Path, identity: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
    ) -> None:
        self._path = path
        self._identity = dict(identity)
        """What the run is: configuration, data and vocabulary; stored in each checkpoint."""
        self._defaults = dict(defaults or {})
        """What a setting is that a checkpoint of an earlier version does not name."""

    def steps(self) -> list[int]:
        """The steps of the checkpoints that are there, newest first."""
        found = self._path.glob("step-*")
        return sorted((int(path.name.removeprefix("step-")) for path in found), reverse=True)

    def place(self, step: int) -> Path:
        """The folder of a step's checkpoint."""
        return self._path / f"step-{step:08d}"

    def save(
        self, position: Position, weights: dict[str, Tensor], optimiser: dict[str, Tensor]
    ) -> None:
        """Write a checkpoint, then remove those no longer needed."""
        run = {"position": asdict(position), "identity": self._identity}
        try:
            with publish(self.place(position.step), KIND, {}) as partial:
                save_file(weights, partial / WEIGHTS)
                save_file(optimiser, partial / OPTIMISER)
                write_text(partial / RUN, json.dumps(run, indent=2) + "\n")
        except (OSError, SafetensorError) as error:
            raise TrainingError(self._write_failure(position.step, error)) from error
        self._prune(position.best_step)

    def newest(self, warn: Any) -> int:
        """The step of the newest checkpoint that is whole, 0 if none; `warn` is told of others."""
        for step in self.steps():
            try:
                self._check(step)
            except ArtifactError as error:
                warn(f"{error}; using the checkpoint before it")
            else:
                return step
        return 0

    def load(self, step: int) -> Checkpoint:
        """Read the checkpoint of a step, which must be of the same run."""
        path = self.place(step)
        run = self._run(step)
        _refuse_other_run(path, {**self._defaults, **run["identity"]}, self._identity)
        position = Position(**run["position"])
        return Checkpoint(position, load_file(path / WEIGHTS), load_file(path / OPTIMISER))

    def clean_up(self, step: int) -> None:
        """Remove what a crash left half-written, and checkpoints newer than `step`: damaged."""
        for leftover in self._path.glob(".*"):
            shutil.rmtree(leftover)
        for newer in self.steps():
            if newer > step:
                shutil.rmtree(self.place(newer))

    def _run(self, step: int) -> dict[str, Any]:
        file = open_artifact(self.place(step), KIND, verify=False).file(RUN)
        return dict(json.loads(file.read_text(encoding="utf-8")))

    def _check(self, step: int) -> None:
        open_artifact(self.place(step), KIND, verify=False).verify()
        best = int(self._run(step)["position"]["best_step"])
        if best and best != step:
            try:
                open_artifact(self.place(best), KIND, verify=False).verify()
            except ArtifactError as error:
                raise ChecksumError(
                    f"{self.place(step)}: needs the best one so far: {error}"
                ) from None

    def _prune(self, best_step: int) -> None:
        steps = self.steps()
        # The checkpoint before this one may count on another best one: keep that, too.
        kept = set(steps[:_KEPT]) | {best_step}
        for step in steps[:_KEPT]:
            kept.add(int(self._run(step)["position"]["best_step"]))
        for step in steps:
            if step not in kept:
                shutil.rmtree(self.place(step))

    def _write_failure(self, step: int, error: Exception) -> str:
        good = next((str(self.place(kept)) for kept in self.steps()), "none")
        return (
            f"the checkpoint of step {step} could not be written to {self._path} ({error}); "
            f"the last good one is {good}; free some space and run again with `resume`"
        )


def _refuse_other_run(path: Path, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for key, value in given.items():
        if stored.get(key) != value:
            was, now = (json.dumps(side, sort_keys=True) for side in (stored.get(key), value))
            raise ArtifactError(
                f"{path}: was trained with another {key} ({was}, now {now}); "
                "go back to it, or train anew with another `out`"
            )

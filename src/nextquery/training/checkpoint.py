"""Checkpoints: everything a run needs to resume bit-identically.

Each is an artifact folder `step-N` with the weights, the optimiser's state and the run's position,
written under another name, flushed to disk and renamed, with the SHA-256 of every file. Random
numbers and the order of the data are functions of seed, epoch and step and need no file.
"""

import errno
import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
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
_NAME = re.compile(r"step-([0-9]{8,})")
_HALF_WRITTEN = re.compile(r"\.step-[0-9]{8,}\.[0-9a-f]{8}\.partial")
_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make it writable"),
    errno.EFBIG: "raise the limit with `ulimit -f`",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit with `ulimit -n`"),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO), "check the disk"),
}


@dataclass(frozen=True)
class Position:
    """The position of a run: all numbers that the next step depends on or that reports add up."""

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


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and verified."""

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
        return sorted((step for step, path in self._named() if path.is_dir()), reverse=True)

    def _named(self) -> list[tuple[int, Path]]:
        """Everything that has the name of a checkpoint, with its step; all else is not ours."""
        paths = list(self._path.iterdir()) if self._path.is_dir() else []
        matches = ((_NAME.fullmatch(path.name), path) for path in paths)
        named = [(int(match[1]), path) for match, path in matches if match]
        return [(step, path) for step, path in named if path == self.folder(step)]

    def folder(self, step: int) -> Path:
        """The folder of a step's checkpoint."""
        return self._path / f"step-{step:08d}"

    def save(
        self, position: Position, weights: dict[str, Tensor], optimiser: dict[str, Tensor]
    ) -> None:
        """Write a checkpoint, then remove those no longer needed."""
        run = {"position": asdict(position), "identity": self._identity}
        try:
            with publish(self.folder(position.step), KIND, {}) as partial:
                save_file(weights, partial / WEIGHTS)
                save_file(optimiser, partial / OPTIMISER)
                write_text(partial / RUN, json.dumps(run, indent=2) + "\n")
        except (OSError, SafetensorError) as error:
            good = next((f"the last good one is {self.folder(step)}" for step in self.steps()), "")
            raise TrainingError(
                f"the checkpoint of step {position.step} could not be written to {self._path} "
                f"({error}); {good or 'there is no earlier one'}; {advice(error)} and run again "
                "with `resume`"
            ) from error
        self._prune(position.best_step)

    def newest(self, warn: Callable[[str], None]) -> int:
        """The step of the newest checkpoint that is whole, 0 if none; damaged ones go to `warn`."""
        damaged: list[ArtifactError] = []
        newest = 0
        for step in self.steps():
            try:
                self._check(step)
            except ArtifactError as error:
                damaged.append(error)
            else:
                newest = step
                break
        for problem in damaged[:-1]:
            warn(str(problem))
        if damaged:
            outcome = (
                f"using the checkpoint of step {newest}"
                if newest
                else "no checkpoint is left: training starts from the beginning"
            )
            warn(f"{damaged[-1]}; {outcome}")
        return newest

    def load(self, step: int) -> Checkpoint:
        """Read the checkpoint of a step, which must be of the same run."""
        path = self.folder(step)
        run = self._run(step)
        stored = {**self._defaults, **run["identity"]}
        for key, value in self._identity.items():
            if stored.get(key) != value:
                was, now = (json.dumps(side, sort_keys=True) for side in (stored.get(key), value))
                raise ArtifactError(
                    f"{path}: was trained with another {key} ({was}, now {now}); "
                    "go back to it, or train a new model with another `out`"
                )
        position = Position(**run["position"])
        return Checkpoint(position, load_file(path / WEIGHTS), load_file(path / OPTIMISER))

    def clean_up(self, step: int) -> None:
        """Remove what a crash left half-written, and checkpoints newer than `step`: damaged."""
        for path in list(self._path.iterdir()) if self._path.is_dir() else []:
            if _HALF_WRITTEN.fullmatch(path.name):
                _remove(path)
        for newer, path in self._named():
            if newer > step:
                _remove(path)

    def _run(self, step: int) -> dict[str, Any]:
        file = open_artifact(self.folder(step), KIND, verify=False).file(RUN)
        return dict(json.loads(file.read_text(encoding="utf-8")))

    def _check(self, step: int) -> None:
        open_artifact(self.folder(step), KIND, verify=False).verify()
        best = int(self._run(step)["position"]["best_step"])
        if best and best != step:
            try:
                open_artifact(self.folder(best), KIND, verify=False).verify()
            except ArtifactError as error:
                raise ChecksumError(
                    f"{self.folder(step)}: needs the best one so far: {error}"
                ) from None

    def _prune(self, best_step: int) -> None:
        steps = self.steps()
        # The checkpoint before this one may count on another best one: keep that, too.
        steps_to_keep = set(steps[:_KEPT]) | {best_step}
        for step in steps[:_KEPT]:
            with suppress(ArtifactError, OSError, ValueError, KeyError):  # damaged: of no use
                steps_to_keep.add(int(self._run(step)["position"]["best_step"]))
        for step in steps:
            if step not in steps_to_keep:
                _remove(self.folder(step))


def advice(error: OSError | SafetensorError) -> str:
    """What to do about an error of the disk.

    >>> advice(OSError(28, "No space left on device"))
    'free some space'
    >>> advice(SafetensorError("I/O error: Read-only file system (os error 30)"))
    'make it writable'
    """
    number = getattr(error, "errno", None)
    if number is None and (in_text := re.search(r"\(os error (\d+)\)", str(error))):
        number = int(in_text[1])
    return _ADVICE.get(number or 0, "fix that")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()

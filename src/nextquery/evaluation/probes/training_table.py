"""The training table (the paper's Table 2), from what training left in a model folder.

Knows the files of a model folder; measures nothing itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextquery.artifacts import open_artifact
from nextquery.evaluation.systems import SystemSource

METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class TrainingFacts:
    """What a model folder says of its training: its manifest's own entries, as they are there."""

    kind: str
    megabytes: float
    model: Mapping[str, Any] | None
    training: Mapping[str, Any] | None
    best_validation: Mapping[str, Any] | None
    """The line of `metrics.jsonl` with the lowest validation loss."""

    @property
    def copies(self) -> bool:
        """Whether the model may copy words of the session, which the paper's does not."""
        return bool((self.model or {}).get("copy"))


def training_table(models: Mapping[str, SystemSource]) -> dict[str, TrainingFacts]:
    """Of each model folder: its size, its settings, and its last results of training."""
    return {name: _facts(source) for name, source in models.items() if isinstance(source, Path)}


def _facts(folder: Path) -> TrainingFacts:
    artifact = open_artifact(folder)
    files = artifact.manifest["files"]
    weights = (name for name in files if name.endswith(".safetensors"))
    size = sum(artifact.file(name).stat().st_size for name in weights)
    return TrainingFacts(
        kind=artifact.kind,
        megabytes=size / 1e6,
        model=artifact.manifest.get("model"),
        training=artifact.manifest.get("training"),
        best_validation=_best_validation(artifact.file(METRICS)) if METRICS in files else None,
    )


def _best_validation(path: Path) -> dict[str, Any] | None:
    """The line of `metrics.jsonl` with the lowest validation loss."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    measured = [line for line in lines if "validation_nll" in line]
    return min(measured, key=lambda line: float(line["validation_nll"]), default=None)

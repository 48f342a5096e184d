"""The training table (the paper's Table 2), from what training left in a model folder.

Knows the files of a model folder; measures nothing itself.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nextquery.artifacts import open_artifact
from nextquery.evaluation.systems import Entry


def training_table(models: Mapping[str, Entry]) -> dict[str, Any]:
    """Of each model folder: its size, its settings, and its last figures of training."""
    return {name: _row(entry) for name, entry in models.items() if isinstance(entry, Path)}


def _row(folder: Path) -> dict[str, Any]:
    artifact = open_artifact(folder)
    files = artifact.manifest["files"]
    size = sum((folder / name).stat().st_size for name in files if name.endswith(".safetensors"))
    return {
        "kind": artifact.kind,
        "megabytes": size / 1e6,
        "model": artifact.manifest.get("model"),
        "training": artifact.manifest.get("training"),
        "best_validation": _best_validation(folder / "metrics.jsonl"),
    }


def _best_validation(path: Path) -> dict[str, Any] | None:
    """The line of `metrics.jsonl` with the lowest validation loss."""
    if not path.is_file():
        return None
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    measured = [line for line in lines if "validation_nll" in line]
    return min(measured, key=lambda line: float(line["validation_nll"]), default=None)

"""Finished steps of an experiment, kept so that an interrupted run goes on where it stopped.

Knows names, fingerprints and figures. A step is done again when what it depends on has changed.
"""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nextquery.artifacts import write_text

FOLDER = "steps"


class StepStore:
    """The finished steps in a report folder.

    `basis` is whatever decides the figures: data, models, settings. Without one (a system that has
    no folder to be recognised by takes part) nothing is taken from earlier runs.
    """

    def __init__(self, report: Path, basis: Any | None) -> None:
        self._folder = report / FOLDER
        self._fingerprint = None if basis is None else fingerprint(basis)
        self.reused: list[str] = []

    def run(self, name: str, compute: Callable[[], Any]) -> Any:
        """The figures of a step: those of an earlier run, or computed now and kept."""
        path = self._folder / f"{name}.json"
        kept = _read(path)
        if self._fingerprint is not None and kept.get("fingerprint") == self._fingerprint:
            self.reused.append(name)
            return kept["figures"]
        figures = plain(compute())
        document = {"fingerprint": self._fingerprint, "figures": figures}
        self._folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(document, ensure_ascii=False))
        return figures


def fingerprint(basis: Any) -> str:
    """A short name of a JSON value."""
    text = json.dumps(basis, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(value: Any) -> Any:
    """The value as JSON has it: tuples become lists, what is not a number becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""Finished steps of an experiment, kept so that an interrupted run goes on where it stopped.

Knows names, fingerprints and records. A step is done again when what it depends on has changed.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from nextquery.artifacts import write_text
from nextquery.evaluation.record_json import from_json, to_json

FOLDER = "steps"

T = TypeVar("T")


class StepStore:
    """The finished steps in a report folder.

    `basis` is whatever decides the results: data, models, settings. Without one (a system that has
    no folder to be recognised by takes part) nothing is taken from earlier runs.
    """

    def __init__(self, report: Path, basis: Any | None) -> None:
        self._folder = report / FOLDER
        self._fingerprint = None if basis is None else fingerprint(basis)
        self.reused: list[str] = []

    def run(self, name: str, kind: Any, compute: Callable[[], T]) -> T:
        """The result of a step, of the type `kind`: an earlier run's, or computed now and kept.

        A result computed now is read back, too, so that both ways give the same record.
        """
        path = self._folder / f"{name}.json"
        kept = self._kept(path, kind)
        if kept is not None:
            self.reused.append(name)
            found: T = kept
            return found
        written = to_json(compute())
        self._folder.mkdir(parents=True, exist_ok=True)
        document = {"fingerprint": self._fingerprint, "result": written}
        write_text(path, json.dumps(document, ensure_ascii=False))
        computed: T = from_json(kind, written)
        return computed

    def _kept(self, path: Path, kind: Any) -> Any | None:
        """The stored result, or None if there is none, or one of another basis or shape."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if self._fingerprint is None or document["fingerprint"] != self._fingerprint:
                return None
            return from_json(kind, document["result"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def fingerprint(basis: Any) -> str:
    """A short name of a JSON value.

    >>> fingerprint({"seeds": 5})
    '6c6c5162c484215c'
    """
    text = json.dumps(basis, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

"""Finished steps of an experiment, kept so that an interrupted run goes on where it stopped.

Knows names, fingerprints and records. A step is done again when what it depends on has changed.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from nextquery.artifacts import write_text
from nextquery.evaluation.record_json import from_json, to_json

FOLDER = "steps"

T = TypeVar("T")


@dataclass(frozen=True)
class Finish(Generic[T]):
    """The second half of a step whose first half is done."""

    compute: Callable[[], T]
    """Gives the result, if need be after a while."""
    ready: Callable[[], bool]
    """Whether it would give it without waiting."""

    def __call__(self) -> T:
        """The result."""
        return self.compute()


def finished(result: T) -> Finish[T]:
    """What is there already."""
    return Finish(lambda: result, lambda: True)


class StepStore:
    """The finished steps in a report folder.

    `basis` is whatever decides the results: data, models, settings. Without one (a system that has
    no folder to be recognised by takes part) nothing is taken from earlier runs.
    """

    def __init__(self, report: Path, basis: Any | None) -> None:
        self._folder = report / FOLDER
        self._fingerprint = None if basis is None else fingerprint(basis)
        self.reused: list[str] = []
        self.seconds: dict[str, float] = {}
        """Processor time of this process by step, an earlier run's included."""

    def run(self, name: str, kind: Any, compute: Callable[[], T]) -> T:
        """The result of a step, of the type `kind`: an earlier run's, or computed now and kept.

        A result computed now is read back, too, so that both ways give the same record.
        """
        return self.begin(name, kind, lambda: Finish(compute, lambda: True))()

    def begin(self, name: str, kind: Any, start: Callable[[], Finish[T]]) -> Finish[T]:
        """The same for a step in two halves, of which `start` does the first."""
        path = self._folder / f"{name}.json"
        kept = self._kept(path, name, kind)
        if kept is not None:
            self.reused.append(name)
            return finished(kept)
        self.seconds[name] = 0.0  # in its place: steps begin in one order, and end in any
        began = time.process_time()
        second = start()
        spent = time.process_time() - began

        def finish() -> T:
            began = time.process_time()
            written = to_json(second())
            self.seconds[name] = round(spent + time.process_time() - began, 1)
            self._write(path, written, self.seconds[name])
            computed: T = from_json(kind, written)
            return computed

        return Finish(cache(finish), second.ready)

    def _write(self, path: Path, result: Any, seconds: float) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        document = {"fingerprint": self._fingerprint, "seconds": seconds, "result": result}
        write_text(path, json.dumps(document, ensure_ascii=False))

    def _kept(self, path: Path, name: str, kind: Any) -> Any | None:
        """The stored result, or None if there is none, or one of another basis or shape."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if self._fingerprint is None or document["fingerprint"] != self._fingerprint:
                return None
            found = from_json(kind, document["result"])
            self.seconds[name] = float(document["seconds"])
            return found
        except (OSError, ValueError, KeyError, TypeError):
            return None


def fingerprint(basis: Any) -> str:
    """A short name of a JSON value.

    >>> fingerprint({"seeds": 5})
    '6c6c5162c484215c'
    """
    text = json.dumps(basis, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

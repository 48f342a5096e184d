"""Steps of an experiment: kept results as JSON, resuming, and a progress bar."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nextquery.artifacts import write_text
from nextquery.ranking.scoring import Track

OPTIONAL: Mapping[str, bool] = {"optional": True}
"""The `metadata` of a field that is left out of the JSON while it has its default."""


def to_json(value: Any) -> Any:
    """A record, or a mapping or sequence of records, as JSON values.

    A number that is not finite becomes null. Fields marked `OPTIONAL` are left out while they have
    their default.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True)
    ... class Part:
    ...     cases: int
    ...     too_few: str | None = field(default=None, metadata=OPTIONAL)
    >>> to_json({"short": Part(3, "3 cases"), "long": Part(40)})
    {'short': {'cases': 3, 'too_few': '3 cases'}, 'long': {'cases': 40}}
    """
    if is_dataclass(value):
        present = ((field.name, field, getattr(value, field.name)) for field in fields(value))
        return {name: to_json(item) for name, field, item in present if not _left_out(field, item)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def from_json(kind: Any, value: Any) -> Any:
    """The record of the type `kind` that `to_json` wrote as `value`; ValueError if it is none.

    >>> from_json(Mapping[str, tuple[int, ...]], {"trees": [12, 40]})
    {'trees': (12, 40)}
    """
    return TypeAdapter(kind).validate_python(value)


def _left_out(described: Field[Any], value: Any) -> bool:
    if not described.metadata.get("optional"):
        return False
    factory = described.default_factory
    return bool(value == (described.default if factory is MISSING else factory()))


class Steps:
    """Shows the step that runs now and how far it is."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)
        self._title = ""

    def begin(self, title: str) -> None:
        """A new step begins."""
        self._title = title
        self._bar.reset(self._task, total=None, description=title)

    def track(self, detail: str) -> Track:
        """A function that passes on a range and counts it within the current step."""

        def count(steps: range) -> Iterator[int]:
            description = f"{self._title}: {detail}"
            self._bar.update(
                self._task, description=description, total=max(len(steps), 1), completed=0
            )
            for step in steps:
                yield step
                self._bar.advance(self._task)

        return count


@contextmanager
def show_steps() -> Iterator[Steps]:
    """Show steps on stderr, if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as b:
        yield Steps(b)


FOLDER = "steps"

T = TypeVar("T")


@dataclass(frozen=True)
class Finish(Generic[T]):
    """The second half of a step whose first half is done."""

    result: Callable[[], T]
    """Gives the result, and waits for it if need be."""
    ready: Callable[[], bool]
    """Whether the result is given without waiting."""


def finished(result: T) -> Finish[T]:
    """A step whose result is there already."""
    return Finish(lambda: result, lambda: True)


class StepStore:
    """The finished steps in a report folder.

    `basis` is whatever decides the results of all steps: data, models, settings. Without one (a
    system that has no folder to be recognised by takes part) nothing is taken from earlier runs.
    `check` raises where that basis has changed meanwhile: before a result is kept.
    """

    def __init__(
        self, report: Path, basis: Any | None, check: Callable[[], None] = lambda: None
    ) -> None:
        self._folder = report / FOLDER
        self._basis = basis
        self._check = check
        self.reused: list[str] = []
        self.seconds: dict[str, float] = {}
        """CPU time of this process by step, an earlier run's included."""

    def run(self, name: str, kind: Any, compute: Callable[[], T], uses: Any = None) -> T:
        """The result of a step, of the type `kind`: an earlier run's, or computed now and kept.

        `uses` decides the result of this step in addition to the basis, such as the hash of a file
        that no other step reads. A result computed now is read back, too, so that both ways give
        the same record.
        """
        return self.begin(name, kind, lambda: Finish(compute, lambda: True), uses).result()

    def begin(
        self, name: str, kind: Any, start: Callable[[], Finish[T]], uses: Any = None
    ) -> Finish[T]:
        """The same for a step in two halves, of which `start` does the first."""
        path = self._folder / f"{name}.json"
        key = None if self._basis is None else fingerprint([self._basis, uses])
        stored = self._stored(path, name, kind, key)
        if stored is not None:
            self.reused.append(name)
            return finished(stored)
        self.seconds[name] = 0.0  # now: steps begin in one order, and end in any
        began = time.process_time()
        second = start()
        spent = time.process_time() - began

        def finish() -> T:
            began = time.process_time()
            result = to_json(second.result())
            seconds = self.seconds[name] = round(spent + time.process_time() - began, 1)
            self._check()
            self._folder.mkdir(parents=True, exist_ok=True)
            document = {"fingerprint": key, "seconds": seconds, "result": result}
            write_text(path, json.dumps(document, ensure_ascii=False))
            computed: T = from_json(kind, result)
            return computed

        return Finish(cache(finish), second.ready)

    def _stored(self, path: Path, name: str, kind: Any, key: str | None) -> Any | None:
        """The stored result, or None if there is none, or one of another basis or shape."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if key is None or document["fingerprint"] != key:
                return None
            result = from_json(kind, document["result"])
            self.seconds[name] = float(document["seconds"])
            return result
        except (OSError, ValueError, KeyError, TypeError):
            return None


def fingerprint(basis: Any) -> str:
    """A short name of a JSON value.

    >>> fingerprint({"seeds": 5})
    '6c6c5162c484215c'
    """
    text = json.dumps(basis, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

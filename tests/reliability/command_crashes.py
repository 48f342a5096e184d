"""Commands that replace something, killed or told to stop at each step on the disk.

    python -m tests.reliability.command_crashes FOLDER MODE POINTS [COMMAND...]

FOLDER has the files of `command_calls.py`. MODE is `killed` (at once, as by kill -9), `stopped` (by
SIGINT and SIGTERM in turns), `both` (in turns), or `in-place` (killed, and the command writes into
the folder itself: the control). A step is a file opened to be written, a folder made, a name
changed or removed, or a flush to the disk. POINTS of the steps of each command are tried, spread
evenly; 0 tries them all.

A trial holds when a reader finds the old folder or the new one, whole; when a stopped command said
one line, ended with 130 or 143 and left nothing; and when the command, called once more, works and
clears what a killed one left. Prints the trials and those that did not hold.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.reliability.command_calls import arguments
from tests.reliability.hostile_options import HEAVY, LIGHT, call, import_commands
from tests.reliability.small_models import LOST_TRIAL

COMMANDS = ("update", "forget", "fit", "blend", "feedback rerank", "feedback guard",
            "feedback report", "export", "study create", "study report", "vectors",
            "synth")  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NAMES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "shutil.copyfile")
FOLDER_ENDS = 77
"""The exit code of a child that was killed at its step."""


class Steps:
    """Counts the steps that a command takes below a folder; acts at one of them."""

    def __init__(self, work: Path, at: int, act: Callable[[], None]) -> None:
        self.seen, self._work, self._at, self._act = 0, str(work), at, act

    def step(self) -> None:
        """One more."""
        self.seen += 1
        if self.seen == self._at:
            self._act()

    def hear(self, event: str, values: tuple[Any, ...]) -> None:
        """A hook of Python's audit."""
        writes = event == "open" and isinstance(values[2], int) and values[2] & WRITES
        path = values[0] if writes or event in NAMES else None
        if isinstance(path, str | os.PathLike) and os.fsdecode(path).startswith(self._work):
            self.step()

    def listen(self) -> None:
        """From now on, in this process."""
        from nextquery.artifacts import files

        sys.addaudithook(self.hear)
        for module, name in ((os, "fsync"), (files, "exchange")):
            setattr(module, name, self._counted(getattr(module, name)))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*values: Any) -> Any:
            self.step()
            return function(*values)

        return counted


class Trials:
    """One command in a folder of its own."""

    def __init__(self, command: str, mode: str, work: Path, world: Path) -> None:
        self._command, self._mode, self._work = command, mode, work
        self._words = _words(command, work, world)
        self._counts, self._world = work.with_name("counts"), world
        for _ in range(2):  # the second time there is something to replace
            code, said = self._run(0, lambda: None)
            assert code == 0, f"{command}: {said}"
        self.steps = int(self._counts.read_text())
        self._target = work / _target(command)
        self._names = _names(work)

    def problem(self, at: int, turn: int) -> str:
        """What does not hold when it ends at this step; empty if all does."""
        number = (signal.SIGINT, signal.SIGTERM)[at % 2]
        stopped = self._mode == "stopped" or (self._mode == "both" and turn % 2 == 1)
        act = (lambda: os.kill(os.getpid(), number)) if stopped else _end
        code, said = self._run(at, act)
        if not _is_whole(self._target):
            return "neither old nor new"
        if stopped:
            name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
            if (code, said) != (128 + number, f"stopped by {name}\n"):
                return f"{code}, {said[-200:]!r}"
        elif code != FOLDER_ENDS:
            return f"not killed: {code}, {said[-200:]!r}"
        left = [name for name in _names(self._work) if name not in self._names]
        # A killed one leaves a folder; one that is stopped then leaves no further one.
        return f"left {left}" if stopped and self._mode == "stopped" and left else ""

    def clears(self) -> str:
        """What does not hold when it is called once more."""
        code, said = self._run(0, lambda: None)
        if code or _names(self._work) != self._names or not _is_whole(self._target):
            return f"afterwards: {code}, {said[-200:]!r}, {_names(self._work)}"
        return ""

    def _run(self, at: int, act: Callable[[], None]) -> tuple[int, str]:
        if self._command == "feedback guard":  # it has something to do only once
            shutil.rmtree(self._work / "reranked")
            shutil.copytree(self._world / "reranked", self._work / "reranked")
        with tempfile.TemporaryFile() as errors:
            child = os.fork()
            if not child:
                if self._mode == "in-place":
                    _write_in_place()
                steps = Steps(self._work, at, act)
                steps.listen()
                call(
                    self._words, self._work, errors.fileno(), 1 << 30, _noting(self._counts, steps)
                )
            status = os.waitpid(child, 0)[1]
            errors.seek(0)
            return os.waitstatus_to_exitcode(status), errors.read().decode("utf-8", "replace")


def _noting(counts: Path, steps: Steps) -> Callable[[], None]:
    def note() -> None:
        counts.write_text(str(steps.seen))

    return note


def _end() -> None:
    os._exit(FOLDER_ENDS)


def _words(command: str, work: Path, world: Path) -> list[str]:
    words = arguments(command, work, world)
    if command == "feedback guard":
        words[words.index("guard") + 1] = str(world / LOST_TRIAL)
        return [*words, "--per-origin", "0"]
    return words


def _target(command: str) -> str:
    return {
        "feedback guard": "reranked",
        "vectors": "out.safetensors",
        "synth": "out.tsv",
    }.get(command, "out")


def _names(work: Path) -> list[str]:
    return sorted(path.name for path in work.iterdir() if path.name != "cache")


def _is_whole(target: Path) -> bool:
    """Whether a reader finds all of it, as its manifest says."""
    from nextquery.artifacts import open_artifact
    from nextquery.errors import NextqueryError

    if target.suffix == ".tsv":
        lines = target.read_text(encoding="utf-8").splitlines(keepends=True)
        return len(lines) > 50 and all(line.count("\t") == 4 for line in lines)
    if target.is_file():
        from safetensors import safe_open

        with safe_open(target, "np") as content:
            return all(content.get_tensor(name) is not None for name in list(content.keys()))
    try:
        artifact = open_artifact(target)
        return all(artifact.file(name).is_file() for name in artifact.manifest["files"])
    except (NextqueryError, OSError):
        return False


def _write_in_place() -> None:
    """The control: a program that writes where the reader reads."""
    from nextquery.artifacts import write_manifest
    from nextquery.suggesters import count_suggester

    @contextlib.contextmanager
    def publish(target: Path, kind: str, entries: dict[str, Any]) -> Iterator[Path]:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        yield target
        write_manifest(target, kind, entries)

    setattr(count_suggester, "publish", publish)  # noqa: B010


def main(world: Path, mode: str, points: int, commands: list[str]) -> dict[str, Any]:
    """Try the commands at their steps."""
    import_commands(*LIGHT, *(HEAVY if not commands else ()))
    problems, tried = [], 0
    for command in commands or COMMANDS:
        # Not a `TemporaryDirectory`: a child that is told to stop would remove it.
        work = Path(tempfile.mkdtemp(prefix="nextquery-crash-"), "place")
        work.mkdir()
        trials = Trials(command, mode, work, world)
        assert trials.steps, f"{command} writes nothing"
        number = min(trials.steps, points or trials.steps)
        for index in range(number):
            at = 1 + index * (trials.steps - 1) // max(1, number - 1)
            tried += 1
            if problem := trials.problem(at, index):
                problems.append(f"{command}, step {at} of {trials.steps}: {problem}")
        tried += 1
        if problem := trials.clears():
            problems.append(f"{command}, {problem}")
        shutil.rmtree(work.parent)
    for problem in problems if mode != "in-place" else ():
        print(problem, file=sys.stderr)
    return {"tried": tried, "held": tried - len(problems), "problems": problems}


if __name__ == "__main__":
    result = main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    print(json.dumps(result))

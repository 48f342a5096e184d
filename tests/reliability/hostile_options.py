"""Every option of every command given hostile values, each call in a process of its own.

    python -m tests.reliability.hostile_options FOLDER SHARE [SEED [COMMAND...]]

FOLDER has the files of `command_calls.py`; SHARE of all cases are tried. A call holds when it ends
with 0, 1 or 2, says at most one error, writes no traceback, leaves nothing half-written, and takes
no more than its time and memory; what is still at work then is told to stop and must do so with
143. Prints the cases tried and those that did not hold.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reliability.command_calls import CALLS, ENDLESS, arguments

NUMBERS = ("-1", "0", "1", "2147483648", "9223372036854775807", "9223372036854775808",
           "18446744073709551616", "-9223372036854775809", "1" + "0" * 30, "1" * 5000, "nan",
           "1e3", "", "\u0663", "0x10", "1_000")  # fmt: skip
SHARES = ("nan", "inf", "-inf", "-1", "0", "1", "1e308", "-1e308", "1e-320", "5e-324", "", "0,5",
          "1" * 400)  # fmt: skip
TEXTS = ("", " ", ",", "=", "=x", "x=", "x=y=z", "a,b,c", "0", "-1", "nan", "[", "{", "%s",
         "x" * 100_000, "two\nlines", "\x1b[31m", "\u202e", "\ufeff", "\udcff\udcfe", "a/../..",
         "*", "https://", "http://[", "http://127.0.0.1:1/x", "no.such.module:name", "os:getcwd",
         "user=", "user=a,time=b,query=c", "query=Query,query=Query", "2030-99-99", "0001-01-01",
         "9999-12-31", "model.query_size=-1", "train.epochs=1e400", "train.seed=nan",
         "similar=x", "decode.beam=-5", "beam=1e9", "a=" + "9" * 5000)  # fmt: skip
PLACES = ("folder", "empty", "pipe", "zero", "full", "null", "unreadable",
          "no/such/parent", "loop", "dangling", "x" * 300, "file/below", "", ".", "/",
          "socket", "binary", "link", "odd [a]*{b}\\ \udcff", "/proc/self/mem", "-",
          "readonly/new")  # fmt: skip
FULL_DISK = "(bytes that fit into a file)"
SECONDS = 20.0
"""CPU time of a call; one that waits for something has `SLOWEST`."""
PATIENCE = 1.5
"""Commands that run until they are stopped are given this long to say what is wrong."""
SLOWEST = 120.0
IDLE = 0.5
"""A command that continues is given its `PATIENCE` in CPU time, or until it idles so long."""
MOST_MEMORY = 3 << 30


@dataclass(frozen=True)
class Case:
    """A command with one of its values replaced."""

    command: str
    parameter: str
    """The option's name, or the argument's."""
    value: str


@dataclass(frozen=True)
class Outcome:
    """How a call ended."""

    code: int
    stopped: bool
    """Whether it had to be told to stop."""
    seconds: float
    memory: int
    errors: str
    left: list[str]
    endless: bool = False
    """Whether it runs until it is stopped when nothing is wrong."""

    def problem(self) -> str:
        """What the promise rules out, in a few words; empty if it held."""
        said = [line for line in self.errors.splitlines() if line.strip()]
        if self.code < 0:
            return "hangs" if self.code == -signal.SIGKILL else f"killed by {-self.code}"
        if "Traceback" in self.errors:
            return f"traceback: {said[-1][:160]}"
        if self.left:
            return f"left {self.left}"
        if self.memory > MOST_MEMORY:
            return f"{self.memory >> 20} MB"
        if self.stopped and not self.endless:
            return "takes too long"
        if self.stopped:
            return "" if self.code in (0, 2, 143) else f"stopped with {self.code}"
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}"
        return _unclear(self.code, said)


def _unclear(code: int, said: list[str]) -> str:
    """Whether an error is something else than one line, or the box of a wrong usage."""
    if code == 0 or any(line.startswith("Usage:") or " Usage:" in line for line in said):
        return ""
    errors = [line for line in said if line.startswith("error: ")]
    if len(errors) != 1 or said[-1] != errors[0]:
        return f"exit code {code}, not one error: {said[-3:]}"[:400]
    return "" if len(errors[0]) < 2000 else f"a line of {len(errors[0])} characters"


def cases() -> Iterator[Case]:
    """The valid call of every command, then each parameter with hostile values of its type."""
    import typer

    from nextquery.cli.main import app

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[Case]:
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, (*path, name))
        if path and not hasattr(command, "commands"):
            yield Case(" ".join(path), "", "")
            yield from (Case(" ".join(path), FULL_DISK, size) for size in ("512", "6000", "50000"))
            for parameter in command.params:
                for value in _values(str(parameter.type_descriptor.annotation), parameter.name):
                    yield Case(" ".join(path), max(parameter.opts, key=len), value)

    yield from walk(typer.main.get_command(app), ())


def _values(annotation: str, name: str) -> tuple[str, ...]:
    if "bool" in annotation:
        return ()
    if "int" in annotation:
        return NUMBERS
    if "float" in annotation:
        return SHARES
    takes_a_place = "Path" in annotation or name in ("logs", "model", "compare", "config", "run")
    return PLACES if takes_a_place else TEXTS


def try_case(case: Case, world: Path) -> Outcome:
    """Call the command and see."""
    # Not a `TemporaryDirectory`: a child that is told to stop would remove it.
    folder = Path(tempfile.mkdtemp(prefix="nextquery-case-"))
    try:
        _furnish(folder)
        before = set(os.listdir(folder))  # noqa: PTH208
        words = _words(case, folder, world)
        start = time.monotonic()
        with tempfile.TemporaryFile() as errors:
            child = os.fork()
            if not child:
                most_bytes = int(case.value) if case.parameter == FULL_DISK else 1 << 30
                call(words, folder, errors.fileno(), most_bytes)
            code, stopped, usage = _wait(child, PATIENCE if case.command in ENDLESS else SECONDS)
            errors.seek(0)
            text = errors.read().decode("utf-8", "replace")
        made = set(os.listdir(folder)) - before  # noqa: PTH208
        left = [name for name in made if name.startswith(".") or name.endswith(".partial")]
        seconds = time.monotonic() - start
    finally:
        (folder / "readonly").chmod(0o700)
        shutil.rmtree(folder)
    endless = case.command in ENDLESS
    return Outcome(code, stopped, seconds, usage.ru_maxrss << 10, text, left, endless)


def _furnish(folder: Path) -> None:
    """The places that a path may lead to."""
    import socket

    (folder / "folder").mkdir()
    (folder / "folder" / "notes.txt").write_text("keep me\n")
    (folder / "empty").touch()
    (folder / "file").write_text("words\n")
    (folder / "binary").write_bytes(bytes(range(256)) * 20)
    (folder / "unreadable").touch(mode=0o000)
    (folder / "readonly").mkdir(mode=0o500)
    for device in ("zero", "full", "null"):
        (folder / device).symlink_to(
            f"/dev/{device}"
        )  # what is renamed there takes the link's place
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "link").symlink_to("folder")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(folder)
        listening.bind("socket")


def _words(case: Case, folder: Path, world: Path) -> list[str]:
    """The valid call with the value in its place."""
    words = arguments(case.command, folder, world)
    if case.parameter in ("", FULL_DISK):
        return words
    if case.parameter.startswith("-"):
        if case.parameter in words:
            words[words.index(case.parameter) + 1] = case.value
            return words
        return [*words, case.parameter, case.value]
    first = len(case.command.split())
    position = first + (case.parameter in ("queries", "query", "text", "logs"))
    if case.command in ("init", "prepare"):
        position = first
    if position < len(words):
        words[position] = case.value
    return words if position < len(words) else [*words, case.value]


def call(
    words: list[str],
    folder: Path,
    errors: int,
    most_bytes: int,
    at_the_end: Callable[[], None] = lambda: None,
) -> None:
    """In the child: the command as `nextquery` runs it; files have at most `most_bytes`."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number, target in ((0, nowhere), (1, nowhere), (2, errors)):
            os.dup2(target, number)
        os.environ.update(XDG_CACHE_HOME=str(folder / "cache"), COLUMNS="200")
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
        sys.dont_write_bytecode = True  # the limit would truncate it, for all later processes
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sys.argv = ["nextquery", *words]
        from nextquery.cli.entry import run

        run()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        at_the_end()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, seconds: float) -> tuple[int, bool, Any]:
    """Exit code (below 0: the signal), whether it was told to stop, what it used."""
    signal.signal(signal.SIGTERM, lambda *_: _end_with(child))
    stopped, begin, used, idle = False, time.monotonic(), 0.0, time.monotonic()
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            break
        now, before, used = time.monotonic(), used, _processor_seconds(child)
        idle = now if used > before else idle
        rests = seconds == PATIENCE and now - begin > PATIENCE and now - idle > IDLE
        if used > seconds or now - begin > SLOWEST or (rests and not stopped):
            if stopped:
                os.killpg(child, signal.SIGKILL)
            else:
                os.kill(child, signal.SIGTERM)
            stopped, begin, seconds = True, now, used + 30
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started must not outlive the case
    return os.waitstatus_to_exitcode(status), stopped, usage


def _processor_seconds(pid: int) -> float:
    """What a running child has used so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _end_with(child: int) -> None:
    """This program is ended: what it tries must not outlive it."""
    os.killpg(child, signal.SIGKILL)
    os._exit(143)


LIGHT = ("nextquery.cli.main", "polars", "nextquery.api", "nextquery.suggesters.neural",
         "nextquery.logs.revise", "nextquery.feedback.compare")  # fmt: skip
HEAVY = ("nextquery.service.app", "nextquery.evaluation.experiment")
"""With torch and scikit-learn, which take seconds to import."""


def import_commands(*modules: str) -> None:
    """Import what commands need, so that each child has it; nothing is computed here."""
    import importlib

    for module in modules:
        importlib.import_module(module)


def main(world: Path, share: float, seed: int, commands: list[str]) -> dict[str, Any]:
    """Try a share of the cases."""
    import_commands(*LIGHT, *HEAVY)
    draw = random.Random(seed)
    every = list(cases())
    without = {case.command for case in every} - CALLS.keys()
    assert not without, f"command_calls.py has no valid call of {without}"
    chosen = [case for case in every if not commands or case.command in commands]
    chosen = [case for case in chosen if draw.random() < share]
    problems = []
    for case in chosen:
        outcome = try_case(case, world)
        problem = outcome.problem()
        if not case.parameter and outcome.code not in (0, 143):
            problem = f"the valid call fails: {outcome.errors[-300:]}"
        if problem:
            shown = f"{case.command} {case.parameter} {case.value[:40]!a}: {problem}"
            problems.append(shown)
            print(shown, file=sys.stderr)
        elif outcome.seconds > 5 and case.command not in ENDLESS:
            print(f"slow ({outcome.seconds:.0f} s): {case}"[:200], file=sys.stderr)
    return {"tried": len(chosen), "held": len(chosen) - len(problems), "problems": problems}


if __name__ == "__main__":
    words = sys.argv[1:]
    result = main(Path(words[0]), float(words[1]), int([*words, "1"][2]), words[3:])
    print(json.dumps(result))

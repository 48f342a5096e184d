"""Promises about folders: crashes, damage, hostile content, swaps, signals and full disks.

Each test runs the real thing in processes of its own; its control is the same test without what the
promise rests on.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from promises.artifact_commands import bad_places, odd_names, save_faults, signals
from promises.command_world import world
from promises.rows import Row
from promises.small_models import ask, make_models
from promises.small_models import sound_models as _models

AREA = "artifacts"
_HERE = Path(__file__).parent


def crash_points(quick: bool) -> Iterator[Row]:
    """Kills at the lines that a publication executes."""
    with tempfile.TemporaryDirectory() as place:
        found = _script("crash_points.py", f"{place}/a", "publish", 250 if quick else 1)
        control = _script("crash_points.py", f"{place}/b", "rename_twice", 40 if quick else 1)
    points = found["points"]
    missed = control["points"] - control["readable"]
    by = "two renames in the place of one exchange"
    yield Row(
        AREA, "killed anywhere, a reader finds old or new", points, found["readable"], by, missed
    )
    left = control["points"] - control["put_right"]
    by = "two renames, nothing cleared"
    yield Row(AREA, "the next job clears what it left", points, found["put_right"], by, left)


def commands(quick: bool) -> Row:
    """Commands that replace something, ended at their steps on the disk."""
    points = 2 if quick else 0
    chosen = ("update", "feedback guard") if quick else ()
    modes = ("both",) if quick else ("killed", "stopped")
    found = [_script("command_crashes.py", world(), mode, points, *chosen) for mode in modes]
    control = _script("command_crashes.py", world(), "in-place", 4, "fit")
    tried, held = (sum(each[name] for each in found) for name in ("tried", "held"))
    return Row(
        AREA,
        "a command killed or stopped at any step leaves old or new, and the next clears up",
        tried,
        held,
        "written in place",
        control["tried"] - control["held"],
        "`update`, `forget`, `fit`, `blend`, `export`, `vectors`, `synth`, feedback and studies"
        if not quick
        else ", ".join(f"`{name}`" for name in chosen),
    )


def neighbours(quick: bool) -> Row:
    """What killed jobs left of artifacts with similar names."""
    from nextquery.artifacts import publish

    names = ["m.v2", "m.0123abcd", "m.0123abcd.partial", "m-2", "m.", "mm", "n", ".m"]
    kept = taken = 0
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            only_copy = Path(place, f".{name}.0123abcd.partial", "old")
            only_copy.mkdir(parents=True)
            (only_copy / "manifest.json").write_text("{}")
            taken += only_copy.parent.name.startswith(".m.")
            with publish(Path(place, "m"), "data", {}):
                pass
            kept += (only_copy / "manifest.json").is_file()
    return Row(AREA, "a neighbour's remains stay", len(names), kept, "names by beginning", taken)


def damaged_folders(quick: bool) -> Row:
    """Files altered behind the manifest's back: refused, or the same answers."""
    trials = 24 if quick else 1100
    found = _trials("damaged", trials)
    control = _trials("damaged-unchecked", trials // 3, until_one=quick)
    held = found.get("refused", 0) + found.get("same", 0)
    wrong = sum(control.get(kind, 0) for kind in ("other", "error", "crash", "hang"))
    return Row(AREA, "a damaged folder is refused by name", trials, held, "unchecked", wrong)


def hostile_folders(quick: bool) -> Row:
    """Content made to harm, with a manifest that fits: refused or answered, never a crash."""
    trials = 24 if quick else 700
    found = _trials("hostile", trials)
    control = _trials("hostile-unchecked", 60 if quick else trials // 2, seed=2, until_one=quick)
    held = sum(found.get(kind, 0) for kind in ("refused", "same", "other"))
    ended = sum(control.get(kind, 0) for kind in ("error", "crash", "hang"))
    note = "answers of a hostile model are its author's"
    promise = "hostile content ends no process"
    return Row(AREA, promise, trials, held, "contents unchecked", ended, note)


def swaps(quick: bool) -> Row:
    """Loads while a writer replaces the model; each must be of one model."""
    loads = {"adjacency": 16, "reranked": 4, "blend": 4} if quick else _LOADS
    held = 0
    with tempfile.TemporaryDirectory() as place:
        for kind, number in loads.items():
            sources = [_models() / kind, _other_models() / kind]
            answers = {repr(ask(source)) for source in sources}
            target = Path(place, kind)
            with _writer(target, sources):
                held += sum(_loaded(target) in answers for _ in range(number))
        sources = [_models() / "adjacency", _other_models() / "adjacency"]
        answers = {repr(ask(source)) for source in sources}
        with _writer(Path(place, "control"), sources), _by_name():
            mixed = _mixtures(Path(place, "control"), answers, loads["adjacency"])
    promise, tried = "a load during swaps is of one model", sum(loads.values())
    note = ", ".join(f"{kind} {number}" for kind, number in loads.items())
    return Row(AREA, promise, tried, held, "files by name", mixed, note)


def _mixtures(target: Path, answers: set[str], loads: int) -> int:
    """How many loads were of no one model; it is a race, so they go on until one was."""
    mixed, last = 0, time.monotonic() + 90.0
    while loads > 0 or (not mixed and time.monotonic() < last):
        mixed += _loaded(target) not in answers
        loads -= 1
    return mixed


TESTS = (
    crash_points,
    commands,
    neighbours,
    damaged_folders,
    hostile_folders,
    swaps,
    signals,
    save_faults,
    bad_places,
    odd_names,
)


def _script(name: str, *arguments: object) -> dict[str, int]:
    command = [sys.executable, "-P", str(_HERE / name), *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def _trials(mode: str, trials: int, seed: int = 1, until_one: bool = False) -> dict[str, int]:
    return _script("folder_trials.py", _models(), mode, trials, seed, int(until_one))


_LOADS = {"adjacency": 1000, "qvmm": 300, "hred": 200, "reranked": 300, "blend": 200}


@cache
def _other_models() -> Path:
    """Models of the same kinds of another log; beside the first, so that they go with them."""
    folder = _models() / "others"
    folder.mkdir()
    make_models(folder, seed=2)
    return folder


@contextmanager
def _writer(target: Path, sources: list[Path]) -> Iterator[None]:
    command = [sys.executable, "-P", str(_HERE / "swapping.py"), str(target), *map(str, sources)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            yield
        finally:
            writer.kill()


def _loaded(target: Path) -> str:
    try:
        return repr(ask(target))
    except Exception as error:
        return repr(error)


@contextmanager
def _by_name() -> Iterator[None]:
    """The control: every file is looked up by the folder's name when it is needed."""
    from nextquery.artifacts import folder, verification

    usual = (folder.OpenFolder.__init__, folder.OpenFolder.is_current, verification.check_file)

    def open_by_name(self: Any, path: Path) -> None:
        usual[0](self, path)
        self.root = path

    try:
        setattr(folder.OpenFolder, "__init__", open_by_name)  # noqa: B010
        setattr(folder.OpenFolder, "is_current", lambda self: True)  # noqa: B010
        setattr(verification, "check_file", lambda *_, **__: time.sleep(0.002))  # noqa: B010
        yield
    finally:
        setattr(folder.OpenFolder, "__init__", usual[0])  # noqa: B010
        setattr(folder.OpenFolder, "is_current", usual[1])  # noqa: B010
        setattr(verification, "check_file", usual[2])  # noqa: B010

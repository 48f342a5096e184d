"""Promises about folders, as the commands keep them: signals, full disks, bad places, odd names."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from promises.rows import Row
from promises.small_models import ask
from promises.small_models import sound_models as _models

AREA = "artifacts"


def signals(quick: bool) -> Row:
    """Ctrl-C and SIGTERM at some moment of every command that writes or reads folders."""
    draw, tried, held = random.Random(1), 0, 0
    names = ("synth", "prepare", "inspect", "fit", "suggest", "experiment")
    for _ in range(1 if quick else 8):
        # The quick form leaves to other rows what they stop: `prepare`, and what replaces folders.
        for name in ("synth", "suggest", "experiment") if quick else names:
            for number in (signal.SIGINT, signal.SIGTERM):
                tried += 1
                held += _stopped_cleanly(name, number, draw.uniform(0.3, 2.5))
                if quick:
                    break
    return Row(
        AREA, "a signal: one line, 130 or 143, nothing left", tried, held, "kill -9", _kill()
    )


def save_faults(quick: bool) -> Row:
    """A disk that is full after some bytes: the old model stays, one line, nothing left."""
    sizes = [100, 5000] if quick else [0, 50, 100, 500, 2000, 4000, 5000, 7500, 9000, 13000]
    kinds = ("adjacency",) if quick else ("popularity", "adjacency", "qvmm", "cacb", "shortcuts")
    cases = [(kind, size) for kind in kinds for size in sizes]
    held = sum(_fails_cleanly(kind, size) for kind, size in cases)
    broken = sum(not _plain_copy_survives(size) for size in sizes)
    promise = "a full disk costs nothing"
    return Row(AREA, promise, len(cases), held, "written in place", broken)


def bad_places(quick: bool) -> Row:
    """Places that no folder can be made at: one line, exit code 2, nothing left."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "file").touch()
        Path(place, "dangling").symlink_to("nowhere")
        Path(place, "loop").symlink_to("loop")
        places = [
            "file",
            "file/out",
            "dangling",
            "loop",
            "x" * 300,
            "/proc/out",
            "new/" + "y" * 300,
        ]
        before = sorted(os.listdir(place))  # noqa: PTH208
        held = 0
        for name in places if not quick else places[:3]:
            done = _fit("adjacency", str(Path(place, name)))
            fine = done.returncode == 2 and done.stderr.count("\n") == 1
            held += fine and sorted(os.listdir(place)) == before  # noqa: PTH208
        tried = len(places if not quick else places[:3])
        bare = subprocess.run(
            [sys.executable, "-c", f"open({place!r} + '/file/out', 'w')"], capture_output=True
        )
        traceback = b"Traceback" in bare.stderr
    return Row(AREA, "a bad place is one line", tried, held, "plain Python", int(traceback))


def odd_names(quick: bool) -> Row:
    """Folders with names that engines take for patterns, or that are no text."""
    names = ["a[1]", "b{x}*?", "back\\slash", "b l a n k", os.fsdecode(b"\xff\xfe"), "%20#", "q'\""]
    held = 0
    with tempfile.TemporaryDirectory() as place:
        for name in names[:2] if quick else names:
            folder = Path(place, name)
            folder.mkdir()
            data = shutil.copytree(_models() / "data1", folder / "data")
            done = _command("fit", data, "--kind", "qvmm", "--out", folder / "m")
            asked = _command("suggest", folder / "m", "google", "--json")
            held += done.returncode == asked.returncode == 0
        import polars as pl

        broken = 0
        try:
            pl.DataFrame({"n": [1]}).write_parquet(Path(place, "a[1]", "n.parquet"))
            pl.read_parquet(str(Path(place, "a[1]", "n.parquet")))
        except Exception:
            broken = 1
    tried = len(names[:2] if quick else names)
    return Row(AREA, "names of any characters work", tried, held, "Polars by name", broken)


def _command(*arguments: object, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "nextquery", *map(str, arguments)],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        preexec_fn=restrict,
    )


def _fit(kind: str, out: object, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    return _command("fit", _models() / "data1", "--kind", kind, "--out", out, limit=limit)


def _arguments(name: str, folder: Path) -> list[object]:
    data, log = _models() / "data1", _models() / "log1.tsv"
    arguments: dict[str, list[object]] = {
        "synth": [folder / "log.tsv", "--sessions", 200_000],
        "prepare": [log, "--out", folder / "out"],
        "inspect": [data],
        "fit": [data, "--kind", "cacb", "--out", folder / "out"],
        "suggest": [_models() / "hred", "google"],
        "experiment": [data, "--out", folder / "report", "--model", _models() / "qvmm"],
    }
    return arguments[name]


def _stopped_cleanly(name: str, number: signal.Signals, after: float) -> bool:
    """Whether a command stopped in one line, or had finished before the signal came."""
    with tempfile.TemporaryDirectory() as place:
        command = [
            sys.executable,
            "-m",
            "nextquery",
            name,
            *map(str, _arguments(name, Path(place))),
        ]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            time.sleep(after)
            process.send_signal(number)
            errors = process.communicate(timeout=120)[1]
        left = [path.name for path in Path(place).iterdir() if path.name.startswith(".")]
        if process.returncode == 0:
            return not left
        said = errors.splitlines()
        # Before the first line of the program runs, the system ends it without a word.
        early = process.returncode == -number and not said
        fine = process.returncode == 128 + number and said[-1:] and "stopped by" in said[-1]
        return not left and (early or bool(fine and "Traceback" not in errors))


def _kill() -> int:
    """How many folders `kill -9` leaves half-written."""
    script = (
        "import sys, time; from pathlib import Path; from nextquery.artifacts import publish\n"
        "with publish(Path(sys.argv[1]), 'data', {}): print(flush=True); time.sleep(60)\n"
    )
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-c", script, f"{place}/out"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
        return len(list(Path(place).iterdir()))


def _fails_cleanly(kind: str, limit: int) -> bool:
    """Whether a fit that cannot write leaves the old model alone and says so in one line."""
    with tempfile.TemporaryDirectory() as place:
        old = Path(shutil.copytree(_models() / "popularity", Path(place, "m")))
        before = (old / "manifest.json").read_bytes()
        done = _fit(kind, old, limit)
        one_line = done.stderr.count("\n") == 1 and done.stderr.startswith("error: ")
        unchanged = (old / "manifest.json").read_bytes() == before and bool(ask(old))
        alone = [path.name for path in Path(place).iterdir()] == ["m"]
        return done.returncode in (1, 2) and one_line and unchanged and alone


def _plain_copy_survives(limit: int) -> bool:
    """The control: files written into their place, up to the limit."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copytree(_models() / "popularity", Path(place, "m")))
        for file in sorted((_models() / "adjacency").glob("*.npy")):
            (copy / file.name).write_bytes(file.read_bytes()[:limit])
        try:
            return bool(ask(copy))
        except Exception:
            return False

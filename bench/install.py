"""What each extra costs to install: packages, megabytes, and seconds until it answers.

Builds the wheel and installs it into a fresh virtual environment per extra (with the versions of
constraints.txt, PyTorch first and alone where it is needed), then runs the commands that the extra
is for. `NEXTQUERY_BENCH_INSTALL=core,serve` chooses extras; the quick form takes the core only.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXTRAS = ("core", "serve", "neural", "train", "experiment", "all")
WITH_TORCH = {"neural", "train", "all"}
REPEATS = 3


def main(quick: bool) -> dict[str, Any]:
    chosen = [name for name in os.environ.get("NEXTQUERY_BENCH_INSTALL", "").split(",") if name]
    names = chosen or (["core"] if quick else list(EXTRAS))
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        return {name: measure(name, wheel, Path(folder) / name) for name in names}


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(ROOT)]
    subprocess.run([*command, "--wheel-dir", str(folder)], check=True)
    return next(folder.glob("nextquery-*.whl"))


def measure(extra: str, wheel: Path, folder: Path) -> dict[str, Any]:
    """Install one extra and time what it is for."""
    python = make_environment(extra, wheel, folder)
    site = next((folder / "lib").glob("python*/site-packages"))
    found = {
        "packages": len(list(site.glob("*.dist-info"))),
        "megabytes": round(sum(f.stat().st_size for f in site.rglob("*") if f.is_file()) / 1e6),
        "help_seconds": _seconds([python, "-m", "nextquery", "--help"]),
        "suggest_seconds": _suggest(python, folder),
    }
    shutil.rmtree(folder)
    return found


def make_environment(extra: str, wheel: Path, folder: Path) -> str:
    """A virtual environment with the wheel and one extra; the path of its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    if extra in WITH_TORCH:
        subprocess.run([*pip, "torch==2.13.0"], check=True)
    wanted = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
    subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), wanted], check=True)
    return python


def _suggest(python: str, folder: Path) -> float:
    """Seconds from a cold start to the suggestions of an adjacency model."""
    work = folder / "work"
    work.mkdir()
    for command in (
        ("synth", "log.tsv", "--sessions", "3000"),
        ("prepare", "log.tsv", "--out", "data", "--no-spelling"),
        ("fit", "data", "--kind", "adjacency", "--out", "adjacency"),
    ):
        subprocess.run(
            [python, "-m", "nextquery", *command], check=True, cwd=work, capture_output=True
        )
    return _seconds([python, "-m", "nextquery", "suggest", "adjacency", "paris"], work)


def _seconds(command: list[str], cwd: Path | None = None) -> float:
    """The shortest of a few runs: the first reads the disk."""
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=cwd)
        taken.append(time.perf_counter() - start)
    return round(min(taken), 2)

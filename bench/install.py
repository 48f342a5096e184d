"""What each extra costs to install: packages, megabytes, and seconds until it answers.

Builds the wheel and installs it into a virtual environment per extra (with the versions of
constraints.txt, PyTorch first and alone where it is needed), then asks a count model there. An
extra begins with a linked copy of the environment that `BASES` names, so that no package is
unpacked twice: `install_seconds` are those beyond it. `counts` is not an extra: the packages of
deploy/requirements-serve.txt alone, for a service that reads no logs.
`NEXTQUERY_BENCH_INSTALL=core,serve` chooses; the quick form takes the core only. On a busy machine
the processor's seconds mean more than the clock's.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nextquery.errors import InputError

ROOT = Path(__file__).parents[1]
BASES = {
    "core": None,
    "counts": None,
    **dict.fromkeys(("serve", "experiment", "duckdb", "redis", "excel", "opensearch"), "core"),
    **dict.fromkeys(("onnx", "spark", "neural"), "core"),
    "train": "neural",
    "all": "train",
}
"""Every extra in the order in which it is measured, and what it is installed on top of."""
REPEATS = 5


def main(quick: bool) -> dict[str, Any]:
    chosen = [name for name in os.environ.get("NEXTQUERY_BENCH_INSTALL", "").split(",") if name]
    unknown = ", ".join(name for name in chosen if name not in BASES)
    if unknown:
        raise InputError(f"NEXTQUERY_BENCH_INSTALL: {unknown} is none of {', '.join(BASES)}")
    names = chosen or (["core"] if quick else list(BASES))
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        model = fit_model(Path(folder))
        return {name: measure(name, wheel, Path(folder), model) for name in names}


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(ROOT)]
    subprocess.run([*command, "--wheel-dir", str(folder)], check=True)
    return next(folder.glob("nextquery-*.whl"))


def measure(extra: str, wheel: Path, folder: Path, model: Path) -> dict[str, Any]:
    """Install one extra and time a count model in it."""
    start = time.perf_counter()
    environment = make_environment(extra, wheel, folder)
    installed = time.perf_counter() - start
    python = str(environment / "bin" / "python")
    site = next((environment / "lib").glob("python*/site-packages"))
    help_clock, help_processor = _seconds([python, "-m", "nextquery", "--help"])
    clock, processor = _seconds([python, "-m", "nextquery", "suggest", str(model), "paris"])
    return {
        "packages": len(list(site.glob("*.dist-info"))),
        "megabytes": round(sum(f.stat().st_size for f in site.rglob("*") if f.is_file()) / 1e6),
        "installed_on": BASES[extra] or "nothing",
        "install_seconds": round(installed, 1),
        "help_seconds": help_clock,
        "help_processor_seconds": help_processor,
        "suggest_seconds": clock,
        "suggest_processor_seconds": processor,
    }


def make_environment(extra: str, wheel: Path, folder: Path) -> Path:
    """A virtual environment with the wheel and one extra; made once."""
    environment = folder / f"environment-{extra}"
    if environment.is_dir():
        return environment
    base = BASES[extra]
    if base:
        shutil.copytree(
            make_environment(base, wheel, folder), environment, symlinks=True, copy_function=os.link
        )
    else:
        command = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
        subprocess.run(command, check=True)
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    pinned = ["--constraint", str(ROOT / "constraints.txt")]
    if extra == "neural":
        subprocess.run([*pip, "torch==2.13.0"], check=True)
    if extra == "counts":
        wanted = ["-r", str(ROOT / "deploy" / "requirements-serve.txt")]
        subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    else:
        wanted = [str(wheel) if extra == "core" else f"{wheel}[{extra}]"]
    subprocess.run([*pip, *pinned, *wanted], check=True)
    return environment


def fit_model(folder: Path) -> Path:
    """An adjacency model of a small synthetic log, fitted by this environment."""
    for command in (
        ("synth", "log.tsv", "--sessions", "3000"),
        ("prepare", "log.tsv", "--out", "data", "--no-spelling"),
        ("fit", "data", "--kind", "adjacency", "--out", "adjacency"),
    ):
        words = [sys.executable, "-m", "nextquery", *command]
        subprocess.run(words, check=True, cwd=folder, capture_output=True)
    return folder / "adjacency"


def _seconds(command: list[str]) -> tuple[float, float]:
    """Clock and processor: the shortest of a few runs, since the first reads the disk."""
    clock, processor = [], []
    # The environment's own package, not the one of the checkout.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    for _ in range(REPEATS):
        start, before = time.perf_counter(), _used()
        subprocess.run(command, check=True, capture_output=True, env=kept)
        clock.append(time.perf_counter() - start)
        processor.append(_used() - before)
    return round(min(clock), 2), round(min(processor), 2)


def _used() -> float:
    """The processor's seconds of all processes that this one started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

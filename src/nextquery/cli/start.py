"""`nextquery demo` and `doctor`: a first run on a synthetic log, and what is installed."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from nextquery.cli.main import one_line
from nextquery.cli.options import AsJson, print_result

IMPORT_SECONDS = 120
COMMANDS = {
    "core": "prepare, inspect, synth, fit, suggest, score, complete",
    "neural": "HRED's reference model in PyTorch; a trained one is served without it",
    "train": "train",
    "experiment": "experiment, study create, study report, inspect --figure",
    "serve": "serve, study serve",
    "duckdb": "prepare and fit with --engine duckdb, for logs larger than memory",
    "spark": "prepare and fit with --engine spark",
    "redis": "serve --sessions redis://...",
    "excel": "prepare with .xlsx and .xls files",
    "opensearch": "prepare --from opensearch URL",
    "onnx": "export --to onnx",
}


def doctor(as_json: AsJson = False) -> None:
    """Say which extras are installed, how long imports take, and what the machine has.

    Example: `nextquery doctor`
    """
    document = {"python": platform.python_version(), "cores": os.cpu_count(), **_installed()}
    native = document["native"]
    lines = [
        f"Python {document['python']} ({sys.executable}), {document['cores']} cores",
        f"  compiled library: {native['instructions'] or one_line(native['problem'])}",
    ]
    for name, facts in document["extras"].items():
        if facts["missing"]:
            lacks = ", ".join(facts["missing"])
            lines.append(
                f"  missing    {name:<11} pip install 'nextquery[{name}]'   (lacks {lacks})"
            )
        elif facts["failure"]:
            reason = one_line(facts["failure"])
            lines.append(f"  broken     {name:<11} cannot be imported: {reason}")
        else:
            took = f"{facts['import_seconds']:.2f} s to import"
            lines.append(f"  installed  {name:<11} {took:<20} {COMMANDS[name]}")
    print_result(document, "\n".join(lines), as_json, indent=2)


def _installed() -> dict[str, Any]:
    from nextquery._version import __version__
    from nextquery.errors import EXTRAS, missing

    modules = {"core": ("polars",), **EXTRAS}
    extras: dict[str, Any] = {}
    for name, needed in modules.items():
        lacks = list(missing(name)) if name in EXTRAS else []
        seconds, failure = (None, None) if lacks else _import(needed)
        extras[name] = {"missing": lacks, "import_seconds": seconds, "failure": failure}
    return {"nextquery": __version__, "native": _compiled_library(), "extras": extras}


def _compiled_library() -> dict[str, str]:
    """The instruction set that decoding uses, or why NumPy is used instead."""
    from nextquery.inference.native import load_native

    library, problem = load_native()
    instructions = "" if library is None else library.instructions().decode()
    return {"instructions": instructions, "problem": problem}


def _import(modules: tuple[str, ...]) -> tuple[float | None, str | None]:
    """How long a fresh process takes to import modules, or why it cannot."""
    code = (
        "import time; start = time.perf_counter(); "
        f"import {', '.join(modules)}; print(time.perf_counter() - start)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPORT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None, f"takes longer than {IMPORT_SECONDS} seconds"
    try:
        return float(done.stdout.split()[-1]), None  # a module may print something, too
    except (IndexError, ValueError):
        messages = done.stderr.strip().splitlines()
        ended = f"ends the process with exit code {done.returncode}"
        return None, messages[-1] if messages else ended


MODEL = "HRED with copying"
COUNT_MODELS = {"ADJ": "adjacency", "QVMM": "qvmm", "CACB": "cacb", "SS": "shortcuts"}
"""The other systems, by the name that the paper gives them."""


class Step(NamedTuple):
    """One command of the demo, and what it shows."""

    title: str
    arguments: tuple[str, ...]


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write everything into.")] = Path(
        "runs/demo"
    ),
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="End by serving the page.")
    ] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")
    ] = 8000,
    sessions: Annotated[int, typer.Option(min=1000, help="Sessions of the log.")] = 30_000,
) -> None:
    """Try everything: synthetic log, prepare, train, suggest, evaluate, serve a page.

    Takes a few minutes on two cores and needs the extra `all`.

    Example: `nextquery demo --out /tmp/demo`
    """
    from nextquery.errors import require

    require("train", "experiment", *(["serve"] if serve else []), install="all")
    out.mkdir(parents=True, exist_ok=True)
    steps = _steps(out, sessions)
    for number, step in enumerate(steps, 1):
        _run(step, f"{number} of {len(steps) + serve}")
    typer.echo(f"\nThe report: {(out / 'report' / 'index.html').resolve()}")
    if serve:
        _run(_service(out, port), f"{len(steps) + 1} of {len(steps) + 1}")


def _steps(out: Path, sessions: int) -> list[Step]:
    log, data, trained = f"{out}/log.tsv", f"{out}/data", f"{out}/hred"
    return [
        Step(
            "A synthetic query log with known structure",
            ("synth", log, "--sessions", str(sessions), "--seed", "1"),
        ),
        Step("Clean sessions, split by time", ("prepare", log, "--out", data, "--no-spelling")),
        Step("What is in it", ("inspect", data)),
        *(
            Step(f"A count model: {name}", ("fit", data, "--kind", kind, "--out", f"{out}/{kind}"))
            for name, kind in COUNT_MODELS.items()
        ),
        Step(
            f"{MODEL}: the paper's model, which can also copy words",
            ("train", data, "--out", trained, "--config", "tiny"),
        ),
        Step("What comes next?", ("suggest", trained, "backpacking rome", "paris")),
        Step(
            "The same query in another session",
            ("suggest", trained, "just married barcelona", "paris"),
        ),
        Step(
            "The paper's three scenarios, smaller than by default to be quick",
            (
                *("experiment", data, "--model", trained, "--out", f"{out}/report"),
                *("--seeds", "1", "--visitors", "known"),
                *("--generation-contexts", "100", "--completion-contexts", "50"),
                *("--scenario", "next_query", "--scenario", "robust", "--scenario", "long_tail"),
            ),
        ),
    ]


def _service(out: Path, port: int) -> Step:
    compared = [
        part
        for name, kind in COUNT_MODELS.items()
        for part in ("--compare", f"{name}={out}/{kind}")
    ]
    return Step(
        f"The page: http://127.0.0.1:{port or '...'}",
        (
            *("serve", f"{out}/hred", "--name", MODEL, "--fallback", f"{out}/adjacency"),
            *("--port", str(port)),
            *compared,
        ),
    )


def _run(step: Step, number: str) -> None:
    """Show a command as a user would type it, and run it; its failure ends the demo."""
    typer.secho(f"\n{number}. {step.title}", bold=True)
    typer.echo(f"$ nextquery {shlex.join(step.arguments)}")
    done = subprocess.run([sys.executable, "-m", "nextquery", *step.arguments])
    if done.returncode:
        raise typer.Exit(done.returncode)

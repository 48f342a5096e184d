"""`nextquery doctor`: what is installed, what is missing, what this machine is."""

import json
import os
import platform
import sys
import time
from typing import Annotated, Any

import typer

COMMANDS = {
    "core": "prepare, inspect, synth, fit, suggest, score, complete",
    "neural": "HRED's reference model in PyTorch; a trained one is served without it",
    "train": "train",
    "experiment": "experiment, study create, study report, inspect --figure",
    "serve": "serve, study serve",
    "spark": "prepare and fit with --engine spark",
    "redis": "serve --sessions redis://...",
    "excel": "prepare with .xlsx and .xls files",
    "opensearch": "prepare --from opensearch URL",
    "onnx": "export --to onnx",
}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say which extras are installed, how long imports take, and what the machine has.

    Example: `nextquery doctor`
    """
    found = {"python": platform.python_version(), "cores": os.cpu_count(), **_installed()}
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"Python {found['python']} ({sys.executable}), {found['cores']} cores")
    for name, facts in found["extras"].items():
        if facts["missing"]:
            lacks = ", ".join(facts["missing"])
            typer.echo(f"  missing    {name:<11} pip install 'nextquery[{name}]'   (lacks {lacks})")
        else:
            took = f"{facts['import_seconds']:.2f} s to import"
            typer.echo(f"  installed  {name:<11} {took:<20} {COMMANDS[name]}")


def _installed() -> dict[str, Any]:
    from nextquery._version import __version__
    from nextquery.extras import EXTRAS, missing

    modules = {"core": ("polars", "duckdb"), **EXTRAS}
    extras = {
        name: {
            "missing": list(missing(name)) if name in EXTRAS else [],
            "import_seconds": _seconds(needed) if name == "core" or not missing(name) else None,
        }
        for name, needed in modules.items()
    }
    return {"nextquery": __version__, "extras": extras}


def _seconds(modules: tuple[str, ...]) -> float:
    """How long a fresh process takes to import modules, its own start left out."""
    import subprocess

    code = (
        "import time; start = time.perf_counter(); "
        f"import {', '.join(modules)}; print(time.perf_counter() - start)"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else time.perf_counter() - start

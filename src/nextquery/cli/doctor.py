"""`nextquery doctor`: what is installed, what is missing, what this machine is."""

import os
import platform
import sys
from typing import Any

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
    from nextquery.extras import EXTRAS, missing

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
    import subprocess

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
        return None, messages[
            -1
        ] if messages else f"ends the process with exit code {done.returncode}"

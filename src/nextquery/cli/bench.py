"""`nextquery bench`: run a benchmark of `bench/` and print its ratios with the machine's facts."""

import json
import os
import platform
import runpy
from pathlib import Path
from typing import Annotated, Any

import typer

from nextquery.errors import InputError

_PACKAGED = Path(__file__).parents[1] / "benchmarks"
_CHECKOUT = Path(__file__).parents[3] / "bench"


def bench(
    name: Annotated[
        str, typer.Argument(help="The benchmark; without a name the list is printed.")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: seconds, not minutes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run a benchmark; figures are ratios within one run.

    Example: `nextquery bench prepare --quick`
    """
    if not name:
        typer.echo("\n".join(benchmarks()))
        return
    if name not in benchmarks():
        raise InputError(f"no benchmark {name!r}; there are: {', '.join(benchmarks())}")
    result = runpy.run_path(str(benchmarks()[name]))["main"](quick)
    document = {"benchmark": name, "quick": quick, "machine": machine(), **result}
    typer.echo(json.dumps(document, indent=2) if as_json else _readable(document))


def benchmarks() -> dict[str, Path]:
    """The benchmarks that come with the package, by name."""
    folder = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


def machine() -> dict[str, Any]:
    """What a reader needs to judge absolute figures."""
    facts = Path("/proc/cpuinfo")
    model = platform.processor() or platform.machine()
    if facts.exists():
        lines = facts.read_text().splitlines()
        model = next(
            (line.split(":", 1)[1].strip() for line in lines if "model name" in line), model
        )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _readable(value: Any, indent: str = "") -> str:
    if not isinstance(value, dict):
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    lines = []
    for key, item in value.items():
        nested = isinstance(item, dict)
        text = _readable(item, indent + "  ")
        lines.append(f"{indent}{key}:\n{text}" if nested else f"{indent}{key}: {text}")
    return "\n".join(lines)

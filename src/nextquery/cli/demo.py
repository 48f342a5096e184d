"""`nextquery demo`: all of nextquery on a synthetic log, from raw rows to a served page."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

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
    from nextquery.extras import require

    require("train", "experiment", *(["serve"] if serve else []), install="all")
    out.mkdir(parents=True, exist_ok=True)
    steps = [*_preparation(out, sessions), *_models(out), *_suggestions(out), _experiment(out)]
    for number, step in enumerate(steps, 1):
        _run(step, f"{number} of {len(steps) + serve}")
    typer.echo(f"\nThe report: {(out / 'report' / 'index.html').resolve()}")
    if serve:
        _run(_service(out, port), f"{len(steps) + 1} of {len(steps) + 1}")


def _preparation(out: Path, sessions: int) -> list[Step]:
    log, data = f"{out}/log.tsv", f"{out}/data"
    return [
        Step(
            "A synthetic query log with known structure",
            ("synth", log, "--sessions", str(sessions), "--seed", "1"),
        ),
        Step("Clean sessions, split by time", ("prepare", log, "--out", data, "--no-spelling")),
        Step("What is in it", ("inspect", data)),
    ]


def _models(out: Path) -> list[Step]:
    counted = [
        Step(
            f"A count model: {name}",
            ("fit", f"{out}/data", "--kind", kind, "--out", f"{out}/{kind}"),
        )
        for name, kind in COUNT_MODELS.items()
    ]
    trained = ("train", f"{out}/data", "--out", f"{out}/hred", "--config", "tiny")
    return [*counted, Step(f"{MODEL}: the paper's model, which can also copy words", trained)]


def _suggestions(out: Path) -> list[Step]:
    return [
        Step("What comes next?", ("suggest", f"{out}/hred", "backpacking rome", "paris")),
        Step(
            "The same query in another session",
            ("suggest", f"{out}/hred", "just married barcelona", "paris"),
        ),
    ]


def _experiment(out: Path) -> Step:
    scenarios = [
        part for name in ("next_query", "robust", "long_tail") for part in ("--scenario", name)
    ]
    small = (
        *("--seeds", "1", "--visitors", "known"),
        *("--generation-contexts", "100", "--completion-contexts", "50"),
    )
    return Step(
        "The paper's three scenarios, smaller than by default to be quick",
        (
            *("experiment", f"{out}/data", "--model", f"{out}/hred", "--out", f"{out}/report"),
            *small,
            *scenarios,
        ),
    )


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

"""`nextquery fit`: fit a count model to a prepared log."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.option_names import in_options

if TYPE_CHECKING:
    from nextquery.config import Section

from nextquery.logs.settings import PrepareSettings


def fit(
    data: Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")],
    kind: Annotated[
        str, typer.Option(help="popularity, adjacency, qvmm, cacb, shortcuts or rescue.")
    ],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting of the kind as key=value, e.g. depth=3 of qvmm; may be repeated.",
        ),
    ] = None,
    hits: Annotated[
        Path | None,
        typer.Option(help="For rescue: a file of titles; a query that none holds finds nothing."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="What counts the sessions: polars, duckdb or spark.")
    ] = PrepareSettings.engine,
    spark_master: Annotated[
        str, typer.Option(help="The Spark master, for --engine spark.")
    ] = PrepareSettings.spark_master,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Fit a count model: popularity, adjacency, qvmm, cacb, shortcuts or rescue.

    Example: `nextquery fit DATA --kind adjacency --out models/adjacency`
    """
    from rich.console import Console

    from nextquery.artifacts import check_target
    from nextquery.config import from_overrides
    from nextquery.guard.hits import read_hits
    from nextquery.logs.advice import emptiness
    from nextquery.logs.data_folder import PreparedData
    from nextquery.suggesters.fitting.fit import fit_model
    from nextquery.suggesters.loading import count_model

    model_type = count_model(kind)
    chosen = from_overrides(model_type.settings_type, settings or [])
    check_target(out, kind)
    start = time.perf_counter()
    prepared = PreparedData(data)
    with Console(stderr=True).status(f"fitting {kind}"):
        check = read_hits(hits) if hits else None
        counting = {"engine": engine, "spark_master": spark_master}
        fitted = fit_model(model_type, prepared, chosen, **counting, hits=check)
        fitted.save(out)
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    advice = [*_chosen(chosen, fitted.settings), *(item.text for item in emptiness(prepared))]
    advice = [in_options(text, {"min_users": "--min-users"}) for text in advice]
    if as_json:
        used = fitted.settings.model_dump(mode="json")
        summary = {"kind": kind, "model": str(out), "settings": used, "advice": advice}
        typer.echo(json.dumps({**summary, "seconds": seconds, "bytes": size}))
    else:
        typer.echo(f"fitted {kind} in {seconds:.1f} s: {out} ({size / 1e6:.1f} MB)")
        for text in advice:
            typer.echo(text, err=True)


def _chosen(asked: "Section", used: "Section") -> Iterator[str]:
    """What the log decided where the settings left it open."""
    before, after = asked.model_dump(), used.model_dump()
    for name in before:
        if before[name] is None and after[name] is False:
            yield f"{_REASONS[name]} (`{name}=false`)."


_REASONS = {
    "satisfactory": "No session ends in a click on a known query, so all sessions are indexed"
}
"""Why a setting that was left open is false."""

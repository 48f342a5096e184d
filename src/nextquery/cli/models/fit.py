"""`nextquery fit`: fit a count model to a prepared log."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from nextquery.logs.settings import PrepareSettings


def fit(
    data: Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")],
    kind: Annotated[
        str, typer.Option(help="popularity, adjacency, qvmm, cacb, shortcuts or rescue.")
    ],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting as key=value, e.g. depth=3; may be repeated."),
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
    from nextquery.logs.data_folder import PreparedData
    from nextquery.suggesters.fitting.fit import fit_model
    from nextquery.suggesters.loading import count_model

    model_type = count_model(kind)
    chosen = from_overrides(model_type.settings_type, settings or [])
    check_target(out)
    start = time.perf_counter()
    prepared = PreparedData(data)
    with Console(stderr=True).status(f"fitting {kind}"):
        check = read_hits(hits) if hits else None
        counting = {"engine": engine, "spark_master": spark_master}
        fit_model(model_type, prepared, chosen, **counting, hits=check).save(out)
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    if as_json:
        summary = {"kind": kind, "model": str(out), "settings": chosen.model_dump(mode="json")}
        typer.echo(json.dumps({**summary, "seconds": seconds, "bytes": size}))
    else:
        typer.echo(f"fitted {kind} in {seconds:.1f} s: {out} ({size / 1e6:.1f} MB)")

"""`nextquery explain`: how much each query of a session counts."""

import json
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.models.decoding import unable


def explain(
    model: Annotated[Path, typer.Argument(help="A model folder made by `nextquery train`.")],
    queries: Annotated[list[str], typer.Argument(help="The session, oldest query first.")],
    figure: Annotated[
        Path | None, typer.Option(help="Draw all gates as a heat map: a .png, .svg or .pdf file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the session update gates: how much each query changed what is remembered.

    Example: `nextquery explain models/hred "airlines" "united airlines" "google" --figure g.png`
    """
    from dataclasses import asdict

    from nextquery import load
    from nextquery.errors import InputError
    from nextquery.inference.explanation import draw_gates, query_weights
    from nextquery.suggesters.base import Gated

    suggester = load(model)
    if not isinstance(suggester, Gated):
        raise unable(model, suggester, "has no gates")
    gates = suggester.update_gates_many([queries])[0]
    weights = query_weights(queries, gates)
    if figure is not None:
        if figure.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InputError(f"--figure {figure}: must end in .png, .svg or .pdf")
        draw_gates(weights, gates, figure)
        typer.echo(f"wrote {figure}", err=True)
    if as_json:
        typer.echo(json.dumps({"queries": [asdict(each) for each in weights]}, ensure_ascii=False))
        return
    typer.echo(" update  share  query")
    for each in weights:
        typer.echo(f"{each.update:7.3f}  {each.share:5.3f}  {each.query}")

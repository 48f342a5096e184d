"""`nextquery score`: how likely given candidates are after the queries of a session."""

import json
from pathlib import Path
from typing import Annotated

import typer


def score(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    candidates: Annotated[
        list[str], typer.Option("--candidate", help="A possible next query; may be repeated.")
    ],
    context: Annotated[
        list[str] | None,
        typer.Option("--context", help="A query of the session, oldest first; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Natural log-likelihood of each candidate, in the given order.

    Example: `nextquery score models/qvmm --context "paris" --candidate "paris hotels"`
    """
    from dataclasses import asdict

    from nextquery import load

    scored = load(model).score(context or [], candidates)
    if as_json:
        document = {"scores": [asdict(item) for item in scored]}
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    for item in scored:
        unknown = f"  [unknown words: {' '.join(item.unknown)}]" if item.unknown else ""
        typer.echo(f"{item.log_likelihood:9.3f}  {item.text}{unknown}")

"""`nextquery neighbours`: what lies near a query or a word in the embedding space."""

import json
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.models.decoding import unable


def neighbours(
    model: Annotated[Path, typer.Argument(help="A model folder made by `nextquery train`.")],
    text: Annotated[str, typer.Argument(help="A query, or with --words a word.")],
    words: Annotated[
        bool, typer.Option("--words", help="Nearest words to a word, instead of queries.")
    ] = False,
    n: Annotated[int, typer.Option("-n", min=1, help="How many neighbours.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the nearest known queries or words by cosine.

    Example: `nextquery neighbours models/hred "cheap flights" -n 5`
    """
    from dataclasses import asdict

    from nextquery import load
    from nextquery.suggesters.base import Embedder

    suggester = load(model)
    if not isinstance(suggester, Embedder):
        raise unable(model, suggester, "has no vectors")
    found = suggester.neighbours(text, n, words=words)
    if as_json:
        document = {"text": text, "neighbours": [asdict(each) for each in found]}
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    for each in found:
        typer.echo(f"{each.cosine:6.3f}  {each.text}")

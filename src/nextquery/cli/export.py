"""`nextquery export`: suggestions for engines and pages that run no Python."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nextquery.export.settings import ExportSettings


def export(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    to: Annotated[
        str,
        typer.Option(
            help="algolia, typesense, meilisearch, opensearch, elasticsearch, json or static."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    queries: Annotated[
        int, typer.Option(min=1, help="The most frequent queries that are written.")
    ] = ExportSettings.queries,
    next_queries: Annotated[
        int, typer.Option(min=1, max=50, help="Next queries of each, at most.")
    ] = ExportSettings.next_queries,
    blocklist: Annotated[
        Path | None, typer.Option(help="File of words and phrases never to suggest.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write guarded suggestions as files that a search engine or a plain web server takes.

    Example: `nextquery export models/adjacency --to typesense --out suggestions`
    """
    from nextquery.export.export import export_model
    from nextquery.suggesters.loading import load

    suggester = load(model, blocklist=blocklist)
    facts = export_model(suggester, to, out, ExportSettings(queries, next_queries))
    if as_json:
        typer.echo(json.dumps({"out": str(out), **asdict(facts)}))
        return
    typer.echo(
        f"{out}: {facts.queries:,} queries with {facts.next_queries:,} next queries for "
        f"{facts.target}; how to load them: docs/export.md"
    )

"""`nextquery export`: suggestions for engines and pages that run no Python."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.export.engines import ExportSettings

if TYPE_CHECKING:
    from nextquery.export.static import StaticQuality


def export(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    to: Annotated[
        str,
        typer.Option(
            help="algolia, typesense, meilisearch, opensearch, elasticsearch, json, static or onnx."
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
    measure: Annotated[
        Path | None,
        typer.Option(
            help="static: a prepared data folder by whose test sessions the lists are measured."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write guarded suggestions as files that a search engine or a plain web server takes.

    Example: `nextquery export models/adjacency --to typesense --out suggestions`
    """
    from nextquery.export.export import export_model
    from nextquery.suggesters.loading import load

    suggester = load(model, blocklist=blocklist)
    facts = export_model(suggester, to, out, ExportSettings(queries, next_queries), measure)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **asdict(facts)}))
        return
    if facts.largest_difference is not None:
        typer.echo(
            f"{out}: the network and {facts.queries:,} queries that may be shown; log-likelihoods "
            f"differ from the model's by at most {facts.largest_difference:.1e}; "
            f"how to use it: {out / 'README.md'}"
        )
        return
    typer.echo(
        f"{out}: {facts.queries:,} queries with {facts.next_queries:,} next queries for "
        f"{facts.target}; how to load them: docs/export.md"
    )
    if facts.quality is not None:
        typer.echo(_quality_lines(facts.quality))


def _quality_lines(found: "StaticQuality") -> str:
    return "\n".join(
        (
            f"after {found.contexts:,} contexts of {found.sessions:,} test sessions, "
            "lists of 5, files against model:",
            f"  answered         {found.answered:.1%} against {found.model_answered:.1%}",
            f"  next query in it {found.hits:.1%} against {found.model_hits:.1%}",
            f"  same first       {found.first_agrees:.1%} where both answer",
            f"  in common        {found.overlap:.1%} where both answer",
            f"  bytes per visit  {found.visit_bytes:,.0f} on average, "
            f"{found.visit_bytes_95:,.0f} at most for 95%",
        )
    )

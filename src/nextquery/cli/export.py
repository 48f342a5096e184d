"""`nextquery export`: suggestions for engines and pages that run no Python."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.options import AsJson, print_result, with_settings
from nextquery.export.engines import ExportSettings

if TYPE_CHECKING:
    from nextquery.export.export import ExportFacts
    from nextquery.export.static import StaticQuality


@with_settings
def export(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    to: Annotated[
        str,
        typer.Option(
            help="algolia, typesense, meilisearch, opensearch, elasticsearch, json, static or onnx."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    settings: ExportSettings,
    blocklist: Annotated[
        Path | None, typer.Option(help="File of words and phrases never to suggest.")
    ] = None,
    measure: Annotated[
        Path | None,
        typer.Option(help="static: a prepared data folder; its test sessions measure the lists."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write guarded suggestions as files that a search engine or a plain web server takes.

    Example: `nextquery export models/adjacency --to typesense --out suggestions`
    """
    from nextquery.export.export import export_model
    from nextquery.suggesters.loading import load

    suggester = load(model, blocklist=blocklist)
    facts = export_model(suggester, to, out, settings, measure)
    print_result({"out": str(out), **asdict(facts)}, _summary(out, facts), as_json)


def _summary(out: Path, facts: "ExportFacts") -> str:
    if facts.largest_difference is not None:
        return (
            f"{out}: the network and {facts.queries:,} queries that may be shown; log-likelihoods "
            f"differ from the model's by at most {facts.largest_difference:.1e}; "
            f"how to use it: {out / 'README.md'}"
        )
    text = (
        f"{out}: {facts.queries:,} queries with {facts.next_queries:,} next queries for "
        f"{facts.target}; how to load them: docs/how-to/export.md"
    )
    return text if facts.quality is None else f"{text}\n{_quality_lines(facts.quality)}"


def _quality_lines(quality: "StaticQuality") -> str:
    return "\n".join(
        (
            f"after {quality.contexts:,} contexts of {quality.sessions:,} test sessions, "
            "lists of 5, files against model:",
            f"  answered         {quality.answered:.1%} against {quality.model_answered:.1%}",
            f"  next query in it {quality.hits:.1%} against {quality.model_hits:.1%}",
            f"  same first       {quality.first_agrees:.1%} where both answer",
            f"  in common        {quality.overlap:.1%} where both answer",
            f"  bytes per visit  {quality.visit_bytes:,.0f} on average, "
            f"{quality.visit_bytes_95:,.0f} at most for 95%",
        )
    )

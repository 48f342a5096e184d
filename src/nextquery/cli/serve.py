"""`nextquery serve` and `export`: the HTTP service, and files for engines without Python."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.artifacts import open_artifact
from nextquery.cli.options import AnyModel, AsJson, ConfigFile, Given, print_result, with_settings
from nextquery.errors import InputError
from nextquery.export.lists import ExportSettings
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.settings import split_pair

if TYPE_CHECKING:
    from nextquery.export.export import ExportFacts
    from nextquery.export.lists import StaticQuality


def served_models(
    model: Path | None, name: str, compare: Sequence[str], interleave: Sequence[str], shadow: str
) -> tuple[tuple[NamedModel, ...], tuple[str, ...], str]:
    """The models of all options, and the names of those interleaved and of the one in the shadow.

    The first model answers requests that name none.
    """
    models: dict[str, Path] = {}
    if model is not None:
        models[name or open_artifact(model, verify=False).kind] = model
    for entry in compare:
        label, folder = split_pair(entry, "compare", "NAME=MODEL, e.g. adj=models/adj")
        _add(models, label, Path(folder), "compare")
    names = [_add(models, *_named("interleave", entry), "interleave") for entry in interleave]
    if not models:
        raise InputError("name a MODEL to serve, or two with --interleave NAME=MODEL")
    in_shadow = _add(models, *_named("shadow", shadow), "shadow") if shadow else ""
    served = tuple(NamedModel(label, path) for label, path in models.items())
    return served, tuple(names), in_shadow


def _add(models: dict[str, Path], label: str, path: Path | None, option: str) -> str:
    """Serve a folder under a name, or find the name that is served already."""
    if path is not None:
        if label in models:
            raise InputError(f"--{option} {label}={path}: another model has this name")
        open_artifact(path, verify=False)
        models[label] = path
    elif label not in models:
        raise InputError(f"--{option} {label}: no model has this name; write {label}=MODEL")
    return label


def _named(option: str, entry: str) -> tuple[str, Path | None]:
    """A name that is served already, or a new one with its folder."""
    if entry and "=" not in entry:
        return entry, None
    name, folder = split_pair(entry, option, "NAME or NAME=MODEL")
    return name, Path(folder)


def _print_new_key(name: str) -> None:
    if not name:
        return
    from nextquery.service.keys import new_key

    created = new_key(name)
    typer.echo(f"key, for the client:  {created.key}")
    typer.echo(f"line, for the key file:  {created.line}")
    raise typer.Exit


@with_settings
def serve(
    model: Annotated[
        Path | None,
        typer.Argument(help="The model folder that answers; may be left out with --interleave."),
    ] = None,
    config: ConfigFile = None,
    name: Annotated[
        str, typer.Option(help="Name of MODEL in requests; its kind if left out.")
    ] = "",
    compare: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MODEL", help="One more model to choose or compare; repeatable."),
    ] = None,
    interleave: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=MODEL]",
            help="Interleave the lists of two models into one; give it twice.",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="A:90,B:10", help="Divide the sessions among served models.")
    ] = "",
    shadow: Annotated[
        str,
        typer.Option(metavar="NAME[=MODEL]", help="Also ask this model, but show nothing of it."),
    ] = "",
    new_key: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            callback=_print_new_key,
            is_eager=True,
            help="Print a new key and its line for a key file, and exit.",
        ),
    ] = "",
    cache_size: Annotated[
        int, typer.Option(hidden=True, help="Has no effect: no answer is shared among visitors.")
    ] = 0,
    no_score: Annotated[
        bool, typer.Option("--no-score", hidden=True, help="Has no effect: it is the default.")
    ] = False,
    *,
    options: Given[ServiceSettings],
) -> None:
    """Serve suggestions over HTTP, with a page to try them.

    Example: `nextquery serve models/hred --compare adj=models/adj --fallback models/adj`
    """
    from nextquery.feedback.assignment import parse_split
    from nextquery.service.run import serve as run

    served, interleaved, in_shadow = served_models(
        model, name, compare or [], interleave or [], shadow
    )
    with tempfile.TemporaryDirectory(prefix="nextquery-") as control:
        run(
            options.settings(
                models=served,
                interleave=interleaved,
                split=parse_split(split) if split else (),
                shadow=in_shadow or None,
                control=Path(control),
            )
        )


@with_settings
def export(
    model: AnyModel,
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

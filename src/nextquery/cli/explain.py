"""`nextquery explain`, `neighbours` and `why`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.suggest import unable
from nextquery.errors import InputError

if TYPE_CHECKING:
    from nextquery.suggesters.diagnosis import Diagnosis


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
    from nextquery.inference.analysis import draw_gates, query_weights
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


def why(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    query: Annotated[str, typer.Argument(help="The query that is asked about.")],
    context: Annotated[
        list[str] | None,
        typer.Option("--context", help="A query of the session, oldest first; may be repeated."),
    ] = None,
    blocklist: Annotated[
        Path | None, typer.Option(help="A file of words and phrases never to be suggested.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", help="NAME=MODEL: ask this model, too; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say whether a query can be suggested and why not: counts, guard, rank, score.

    Example: `nextquery why models/hred "paris hotels" --context paris --compare adj=models/adj`
    """
    from dataclasses import asdict

    from nextquery import load
    from nextquery.suggesters import diagnosis

    folders = {"model": model, **dict(map(_named, compare or []))}
    found = {
        name: diagnosis.why(load(folder, blocklist=blocklist), query, context or [])
        for name, folder in folders.items()
    }
    if as_json:
        typer.echo(
            json.dumps({name: asdict(each) for name, each in found.items()}, ensure_ascii=False)
        )
        return
    for name, each in found.items():
        typer.echo(_readable(name, each))


def _named(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals or not name or not folder or name == "model":
        raise InputError(f"`compare` {text}: write NAME=MODEL, with a name other than 'model'")
    return name, Path(folder)


def _readable(name: str, found: "Diagnosis") -> str:
    verdict = "can be suggested" if found.can_be_suggested else f"cannot: {found.reason}"
    least = found.min_users
    few = "none" if least == 1 else f"fewer than {least}"
    users = f"at least {least}" if found.enough_users else few
    seen = f", {found.count:,} time{'' if found.count == 1 else 's'}" if found.count else ""
    rank = f"{found.rank}" if found.rank else f"not among the first {found.listed}"
    lines = [
        f"{name} ({found.model}): {found.query!r} {verdict}",
        f"  users who typed it: {users}{seen}",
        f"  log-likelihood: {found.score:.3f}",
        f"  rank: {rank}",
    ]
    rare = [word.word for word in found.words if not word.enough_users]
    unknown = [word.word for word in found.words if not word.known]
    if rare:
        of = "that nobody typed" if least == 1 else f"of fewer than {least} users"
        lines.append(f"  words {of}: {' '.join(rare)}")
    if unknown:
        lines.append(f"  words that the model does not know: {' '.join(unknown)}")
    return "\n".join(lines)

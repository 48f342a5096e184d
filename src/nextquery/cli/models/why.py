"""`nextquery why`: whether a query can be suggested after a session, and why not."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.errors import InputError

if TYPE_CHECKING:
    from nextquery.suggesters.diagnosis import Diagnosis


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

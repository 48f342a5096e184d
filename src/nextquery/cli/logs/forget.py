"""`nextquery forget`: a data folder without the rows of some people."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.errors import InputError

if TYPE_CHECKING:
    from nextquery.logs.revising.revise import Revision


def forget(
    data: Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")],
    user: Annotated[
        list[str] | None, typer.Option("--user", help="Whom to forget, as the log names them.")
    ] = None,
    users_file: Annotated[
        Path | None, typer.Option("--users-file", help="A file with one user per line.")
    ] = None,
    pseudonyms: Annotated[
        bool, typer.Option("--pseudonyms", help="Users are named as in the data folder.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write here and leave the folder as it is.")
    ] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option("--model", help="A model of this data: say whether it must be made again."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Remove people from a data folder, as if the log had never had them.

    Example: `nextquery forget data/ --user 217 --user 993`
    """
    from nextquery.cli.logs.prepare import progress_bar
    from nextquery.logs.revising.forget import forget as run

    users = [*(user or ()), *_listed(users_file)]
    with progress_bar() as progress:
        revision = run(data, users, out, as_pseudonyms=pseudonyms, progress=progress)
    behind = {str(path): _forgotten_since(path, out or data) for path in model or ()}
    if as_json:
        document = {**asdict(revision), "models_forgotten_since": behind}
        typer.echo(json.dumps(document, indent=2))
    else:
        lines = [
            _summary(revision, len(set(users)), out or data),
            *map(_model_line, behind.items()),
            *filter(None, map(_approximate_line, model or ())),
        ]
        typer.echo("\n".join(lines))


def _forgotten_since(model: Path, data: Path) -> int | None:
    from nextquery.artifacts import open_artifact
    from nextquery.logs.data_folder import PreparedData
    from nextquery.logs.provenance import forgotten_since

    return forgotten_since(open_artifact(model).manifest, PreparedData(data))


def _model_line(found: tuple[str, int | None]) -> str:
    path, users = found
    if users is None:
        return f"{path}: does not say what it was made from; make it again"
    if users:
        return f"{path}: made before {users:,} users were forgotten; make it again"
    return f"{path}: includes every removal"


def _approximate_line(path: Path) -> str:
    """What to say of a model that went on from one that knew somebody; "" of any other."""
    from nextquery.artifacts import open_artifact
    from nextquery.logs.provenance import approximately_forgotten

    entry = open_artifact(path).manifest.get("data")
    users = approximately_forgotten(entry) if entry else 0
    return f"{path}: the removal of {users:,} users is approximate; train anew" if users else ""


def _listed(file: Path | None) -> list[str]:
    from nextquery.plain_files import read_plain_text

    if file is None:
        return []
    try:
        lines = read_plain_text(file).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"`users_file` {file}: cannot be read ({error})") from None
    return [line for line in lines if line.strip()]


def _summary(revision: "Revision", asked: int, out: Path) -> str:
    lines = [
        f"{revision.users_removed:,} of {asked:,} users had rows; {revision.rows_removed:,} rows "
        f"removed",
        f"written to {out}",
        "models made before this still know these users: fit or train them again",
    ]
    if revision.unattributed_excerpts:
        lines.append(
            f"{revision.unattributed_excerpts:,} rejected rows with an excerpt name nobody and "
            "stay; look at rejected.ndjson.gz"
        )
    return "\n".join(lines)

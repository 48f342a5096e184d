"""`nextquery update`: days are added to a data folder, old ones go."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def update(
    data: Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")],
    logs: Annotated[
        list[str] | None,
        typer.Argument(help="New log files or folders, of the same format.", metavar="LOG"),
    ] = None,
    keep_days: Annotated[
        int | None,
        typer.Option("--keep-days", help="Keep the last so many days of the log; older rows go."),
    ] = None,
    new_only: Annotated[
        bool,
        typer.Option("--new-only", help="Leave out files that the folder has already, by name."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write here and leave the folder as it is.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Add new logs to a data folder without reading the old ones again.

    Example: `nextquery update data/ 2026-11-16.tsv --keep-days 90`
    """
    from nextquery.cli.logs.prepare import progress_bar
    from nextquery.logs.revising.update import update as run

    with progress_bar() as progress:
        revision = run(
            data, logs or [], out, keep_days=keep_days, new_only=new_only, progress=progress
        )
    if as_json:
        typer.echo(json.dumps(asdict(revision), indent=2))
        return
    sessions = revision.counts["sessions"]
    typer.echo(
        f"{revision.rows_added:,} rows added, {revision.rows_removed:,} removed\n"
        f"sessions: {', '.join(f'{name} {count:,}' for name, count in sessions.items())}\n"
        f"written to {out or data}"
    )

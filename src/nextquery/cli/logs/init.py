"""`nextquery init`: look at a log and say what to run next."""

import json
import shlex
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli.option_names import in_options
from nextquery.logs.reading.settings import FORMAT_NAMES, ReadSettings
from nextquery.logs.settings import PrepareSettings

if TYPE_CHECKING:
    from nextquery.logs.advice import Advice


def init(
    logs: Annotated[
        list[Path], typer.Argument(help="Log files, plain or compressed.", metavar="LOG")
    ],
    columns: Annotated[
        str,
        typer.Option(
            help="Which columns to read, where they are not found: "
            "user=...,time=...,query=...[,click=...]."
        ),
    ] = "",
    format: Annotated[
        str, typer.Option(help=f"auto, or one of {', '.join(FORMAT_NAMES)}.")
    ] = ReadSettings.format,
    min_users: Annotated[
        int,
        typer.Option(
            min=1, help="K: a word or query of fewer users is never counted or suggested."
        ),
    ] = PrepareSettings.min_users,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Look at a log: what is in it, which models are worth it, what to run next.

    Nothing is kept: the log is prepared in a temporary folder.

    Example: `nextquery init queries.tsv.gz`
    """
    from nextquery.api import prepare
    from nextquery.cli.logs.prepare import parse_columns
    from nextquery.logs.advice import advise
    from nextquery.logs.facts import describe

    with tempfile.TemporaryDirectory(prefix="nextquery-") as folder:
        data = prepare(
            logs,
            Path(folder) / "data",
            columns=parse_columns(columns),
            format=format,
            min_users=min_users,
            spelling=False,
        )
        facts = describe(data, frequent=0)
        advice = advise(data, facts)
        settings = data.artifact.manifest["settings"]
    document = {
        "format": settings["format"],
        "reason": settings["format_reason"],
        "counts": dict(facts.counts),
        "seen_before": dict(facts.repetition.seen_before),
        "advice": [asdict(item) for item in advice],
    }
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return
    given = {"--columns": columns, "--format": "" if format == ReadSettings.format else format}
    words = [*map(str, logs), *(word for pair in given.items() if pair[1] for word in pair)]
    typer.echo(_readable(document, shlex.join(words), advice))


def _readable(document: dict[str, Any], log: str, advice: "tuple[Advice, ...]") -> str:
    counts = document["counts"]
    sessions = ", ".join(f"{name} {count:,}" for name, count in counts["sessions"].items())
    known = document["seen_before"].get("test", 0.0)
    options = {"min_users": "--min-users"}
    lines = [
        f"format    {document['format']}: {document['reason']}",
        f"rows      {counts['rows_read']:,} read, {counts['rows_rejected']:,} rejected, "
        f"{counts['users']:,} users",
        f"sessions  {sessions} (of two or more queries)",
        f"repeats   {known:.1%} of the test queries were typed before",
        "",
        "next:",
        f"  nextquery prepare {log} --out DATA",
    ]
    for item in advice:
        lines.append(f"  # {in_options(item.text, options)}")
        if item.command:
            lines.append(f"  nextquery {item.command}")
    lines += ["  # Ask any of them what comes next.", '  nextquery suggest adjacency "A QUERY"']
    return "\n".join(lines)

"""`nextquery synth`: write a made-up query log with known structure."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def synth(
    out: Annotated[Path, typer.Argument(help="The log to write; .gz at the end compresses it.")],
    sessions: Annotated[int, typer.Option(help="How many sessions.", min=1)] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same file.", min=0)] = 1,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="The control: queries dealt to sessions at random.")
    ] = False,
    titles: Annotated[
        Path | None,
        typer.Option(help="Also write what the made-up site has: the hits check of its queries."),
    ] = None,
    satisfaction: Annotated[
        str,
        typer.Option(
            metavar="none|outcome|chance",
            help="Whether users are satisfied, which clicks and pauses follow: by the outcome "
            "searched for, or, as the control, by chance.",
        ),
    ] = "none",
    extra_words: Annotated[
        int,
        typer.Option(
            help="Made-up words beside the lexicon's 2,700, as names of things to search for.",
            min=0,
            max=1_000_000,
        ),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write a made-up query log in AOL format, for the demo, tests and experiments.

    Example: `nextquery synth log.tsv --sessions 20000 --seed 1`
    """
    from nextquery.logs.synthetic.log import check_satisfaction, write_log

    kind = check_satisfaction(satisfaction)
    summary = write_log(
        out,
        sessions,
        seed,
        shuffled=shuffled,
        titles=titles,
        satisfaction=kind,
        extra_words=extra_words,
    )
    found = {
        "path": str(out),
        "sessions": sessions,
        **asdict(summary),
        "seed": seed,
        "shuffled": shuffled,
        "satisfaction": satisfaction,
        "extra_words": extra_words,
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(
        f"{out}: {summary.rows:,} rows, {sessions:,} sessions of {summary.users:,} users, "
        f"{summary.distinct_queries:,} different queries, {summary.first} to {summary.last}"
    )

"""`nextquery inspect`: what a prepared log looks like."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.option_names import in_options

if TYPE_CHECKING:
    from nextquery.logs.facts import LogFacts


def inspect(
    data: Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")],
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the session lengths into this PNG.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what was found in a log: sizes, session lengths, repetition, frequent queries.

    Example: `nextquery inspect data/ --figure lengths.png`
    """
    from dataclasses import asdict

    from nextquery.logs.advice import problems
    from nextquery.logs.data_folder import PreparedData
    from nextquery.logs.facts import describe, draw_lengths

    prepared = PreparedData(data)
    facts = describe(prepared)
    if figure:
        draw_lengths(facts, figure)
    lacking = [
        in_options(item.text, {"min_users": "--min-users"}) for item in problems(prepared, facts)
    ]
    if as_json:
        typer.echo(json.dumps(asdict(facts) | {"advice": lacking}, indent=2))
    else:
        typer.echo("\n".join([_readable(facts), *(["", *lacking] if lacking else [])]))


def _readable(facts: "LogFacts") -> str:
    counts = facts.counts
    lines = [
        f"rows      {counts['rows_read']:>12,} read, {counts['rows_rejected']:,} rejected, "
        f"{sum(counts['rows_dropped'].values()):,} dropped",
        f"users     {counts['users']:>12,}",
        "",
        f"{'split':<14}{'sessions':>10}{'queries':>10}{'2':>9}{'3-4':>9}{'5+':>9}"
        f"{'seen':>9}{'20 next':>9}{'5 next':>9}",
    ]
    for split, lengths in facts.lengths.items():
        shares = [lengths.short, lengths.medium, lengths.long]
        if split in facts.anchors_with_followers:
            shares.append(facts.repetition.seen_before[split])
            shares += facts.anchors_with_followers[split].values()
        cells = "".join(f"{share:>9.1%}" for share in shares)
        sizes = f"{counts['sessions'][split]:>10,}{counts['queries'][split]:>10,}"
        lines.append(f"{split:<14}{sizes}{cells}")
    lines += [
        "",
        "seen: queries that the background has; 20 next: anchors with 20 or more followers",
        f"{facts.repetition.repeated_in_background:.1%} of the background's queries occur more "
        f"than once; {facts.repetition.sessions_with_a_return:.1%} of its sessions return to one",
        "most frequent queries (count, users):",
    ]
    lines += [f"  {count:>8,} {users:>7,}  {text}" for text, count, users in facts.frequent_queries]
    return "\n".join(lines)

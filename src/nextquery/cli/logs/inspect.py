"""`nextquery inspect`: what a prepared log looks like."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.option_names import in_options
from nextquery.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nextquery.evaluation.drift import Drift
    from nextquery.logs.data_folder import PreparedData
    from nextquery.logs.facts import LogFacts


def inspect(
    data: Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")],
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the session lengths into this PNG.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="An earlier data folder: what changed since, and when to retrain."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="With --against: a served model, to see how well it still predicts."),
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
    if model is not None and against is None:
        raise InputError("--model: name the earlier data folder with --against")
    if against is not None:
        _show_drift(prepared, PreparedData(against), model, as_json=as_json)
        return
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


def _show_drift(
    data: "PreparedData", against: "PreparedData", model: Path | None, *, as_json: bool
) -> None:
    from dataclasses import asdict

    from nextquery.evaluation.drift import drift

    found = drift(data, against, model)
    if as_json:
        document = asdict(found) | {"retrain": found.retrain}
        if found.fit is not None:
            document["fit"]["ratio"] = found.fit.ratio
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    typer.echo("\n".join(_drift_lines(found)))


def _drift_lines(found: "Drift") -> "Iterator[str]":
    yield f"{found.new_sessions:,} sessions since {found.since}"
    yield (
        f"unknown to the earlier log: {found.unknown_words:.1%} of the words "
        f"({found.unknown_before:.1%} before), {found.unknown_queries:.1%} of the queries"
    )
    listed = ", ".join(f"{each.text} ({each.users:,} users)" for each in found.frequent_new_words)
    yield f"new words: {found.new_words:,}" + (f": {listed}" if listed else "")
    listed = ", ".join(f"{each.text} ({each.users:,} users)" for each in found.frequent_vanished)
    yield (
        f"vanished queries: {found.vanished_queries:,}, {found.vanished_share:.1%} of what was "
        "typed" + (f": {listed}" if listed else "")
    )
    if found.fit is not None:
        fit = found.fit
        yield (
            f"{fit.model} ({fit.kind}): perplexity {fit.new:,.1f} on {fit.sessions:,} new "
            f"sessions, {fit.old:,.1f} on as many earlier ones: {fit.ratio:.2f} times"
        )
    yield "retrain: " + ("; ".join(found.reasons) if found.retrain else "no need")


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

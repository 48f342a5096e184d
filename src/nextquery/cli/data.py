"""`nextquery inspect`, `trends`, `forget` and `update`: commands on a data folder."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.main import in_options
from nextquery.cli.options import AsJson, DataFolder, print_result, with_settings
from nextquery.errors import InputError
from nextquery.logs.settings import TrendSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nextquery.evaluation.drift import Change, Drift
    from nextquery.logs.inspect import Advice, LogFacts
    from nextquery.logs.revise import Revision
    from nextquery.logs.trends import TrendReport

OtherFolder = Annotated[
    Path | None, typer.Option("--out", help="Write here and leave the folder as it is.")
]


def inspect(
    data: DataFolder,
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
    as_json: AsJson = False,
) -> None:
    """Show the contents of a log: sizes, session lengths, repetition, frequent queries.

    Example: `nextquery inspect data/ --figure lengths.png`
    """
    from nextquery.cli.prepare import ADVISED
    from nextquery.logs.data_folder import PreparedData, read_data
    from nextquery.logs.inspect import describe, draw_lengths, problems

    if model is not None and against is None:
        raise InputError("--model: name the earlier data folder with --against")
    if against is not None:
        _show_drift(data, against, model, as_json=as_json)
        return

    def read(prepared: PreparedData) -> "tuple[LogFacts, list[Advice]]":
        facts = describe(prepared)
        return facts, list(problems(prepared, facts))

    facts, advice = read_data(data, read)
    if figure:
        draw_lengths(facts, figure)
    lacking = [in_options(item.text, ADVISED) for item in advice]
    text = "\n".join([_facts_text(facts), *(["", *lacking] if lacking else [])])
    print_result(asdict(facts) | {"advice": lacking}, text, as_json, indent=2)


def _show_drift(data: Path, against: Path, model: Path | None, *, as_json: bool) -> None:
    from nextquery.evaluation.drift import drift
    from nextquery.logs.data_folder import read_data

    result = read_data(
        data, lambda new: read_data(against, lambda earlier: drift(new, earlier, model))
    )
    document = asdict(result) | {"retrain": result.retrain}
    if result.fit is not None:
        document["fit"]["ratio"] = result.fit.ratio
    print_result(document, "\n".join(_drift_lines(result)), as_json, indent=2)


def _drift_lines(drift: "Drift") -> "Iterator[str]":
    yield f"{drift.new_sessions:,} sessions since {drift.since}"
    yield (
        f"unknown to the earlier log: {drift.unknown_words:.1%} of the words "
        f"({drift.unknown_before:.1%} before), {drift.unknown_queries:.1%} of the queries"
    )

    def listed(changes: "Sequence[Change]") -> str:
        texts = ", ".join(f"{change.text} ({change.users:,} users)" for change in changes)
        return f": {texts}" if texts else ""

    yield f"new words: {drift.new_words:,}{listed(drift.frequent_new_words)}"
    yield (
        f"vanished queries: {drift.vanished_queries:,}, {drift.vanished_share:.1%} of what was "
        f"typed{listed(drift.frequent_vanished)}"
    )
    if drift.fit is not None:
        fit = drift.fit
        yield (
            f"{fit.model} ({fit.kind}): perplexity {fit.new:,.1f} on {fit.sessions:,} new "
            f"sessions, {fit.old:,.1f} on as many earlier ones: {fit.ratio:.2f} times"
        )
        ranks = ", ".join(f"{name} {value:.4f}" for name, value in fit.mrr.items())
        yield f"MRR of the next query on new sessions: {ranks}"
    yield "retrain: " + ("; ".join(drift.reasons) if drift.retrain else "no need")


def _facts_text(facts: "LogFacts") -> str:
    counts = facts.counts
    lines = [
        f"rows      {counts['rows_read']:>12,} read, {counts['rows_rejected']:,} rejected, "
        f"{sum(counts['rows_dropped'].values()):,} dropped",
        f"users     {counts['users']:>12,}",
        "",
        f"{'split':<14}{'single':>10}{'sessions':>10}{'queries':>10}{'2':>9}{'3-4':>9}{'5+':>9}"
        f"{'seen':>9}{'20 next':>9}{'5 next':>9}",
    ]
    for split, lengths in facts.lengths.items():
        shares = [lengths.short, lengths.medium, lengths.long]
        if split in facts.anchors_with_followers:
            shares.append(facts.repetition.seen_before[split])
            shares += facts.anchors_with_followers[split].values()
        cells = "".join(f"{share:>9.1%}" for share in shares)
        single = counts.get("single_query_sessions", {}).get(split, 0)
        sizes = f"{single:>10,}{counts['sessions'][split]:>10,}{counts['queries'][split]:>10,}"
        lines.append(f"{split:<14}{sizes}{cells}")
    lines += [
        "",
        "single: sessions of one query; sessions and queries: those of two or more queries",
        "seen: searches whose query the background has; 20 next: anchors with 20 or more followers",
        f"{facts.repetition.repeated_in_background:.1%} of the background's searches occur more "
        f"than once; {facts.repetition.sessions_with_a_return:.1%} of its sessions return to one",
        "most frequent queries of all searches (count, users):",
    ]
    lines += [f"  {count:>8,} {users:>7,}  {text}" for text, count, users in facts.frequent_queries]
    return "\n".join(lines)


@with_settings
def trends(
    data: DataFolder,
    settings: TrendSettings,
    as_json: AsJson = False,
) -> None:
    """Show trending queries: more users than in their own past, and not by chance.

    Example: `nextquery trends data/ --days 7 --past-days 28`
    """
    from nextquery.logs.data_folder import read_data
    from nextquery.logs.trends import find_trends

    report = read_data(data, lambda prepared: find_trends(prepared, settings))
    print_result(asdict(report), _trends_text(report), as_json, indent=2)


def _trends_text(report: "TrendReport") -> str:
    lines = [
        f"{report.first_day} to {report.last_day} against the days from {report.past_from}: "
        f"{len(report.trends):,} of {report.queries_tested:,} queries are trending",
    ]
    if report.trends:
        lines.append(f"{'growth':>8}{'users':>8}{'lately':>8}{'before':>8}{'q':>10}  query")
    lines += [
        f"{trend.growth:>7.1f}x{trend.users:>8,}{trend.recent:>8,}{trend.before:>8,}"
        f"{trend.q:>10.2g}  {trend.query}"
        for trend in report.trends
    ]
    return "\n".join(lines)


def forget(
    data: DataFolder,
    user: Annotated[
        list[str] | None, typer.Option("--user", help="Whom to forget, as the log names them.")
    ] = None,
    users_file: Annotated[
        Path | None, typer.Option("--users-file", help="A file with one user per line.")
    ] = None,
    pseudonyms: Annotated[
        bool, typer.Option("--pseudonyms", help="Users are named as in the data folder.")
    ] = False,
    out: OtherFolder = None,
    model: Annotated[
        list[Path] | None,
        typer.Option("--model", help="A model of this data: say whether it must be made again."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove people from a data folder, as if the log had never had them.

    Ends with exit code 1 if somebody who was named has no rows there; the others are removed.

    Example: `nextquery forget data/ --user 217 --user 993`
    """
    from nextquery.artifacts import open_artifact
    from nextquery.cli.prepare import progress_bar, read_names
    from nextquery.logs.data_folder import PreparedData, approximately_forgotten, forgotten_since
    from nextquery.logs.revise import forget as run

    users = [*(user or ()), *read_names("users_file", users_file)]
    with progress_bar() as progress:
        revision = run(data, users, out, as_pseudonyms=pseudonyms, progress=progress)
    models = {path: open_artifact(path).manifest for path in model or ()}
    outdated = {
        str(path): forgotten_since(manifest, PreparedData(out or data))
        for path, manifest in models.items()
    }
    lines = [
        _summary(revision, len(set(users)), out or data),
        *(_model_line(path, users) for path, users in outdated.items()),
        *(
            f"{path}: the removal of {late:,} users is approximate; train a new model"
            for path, manifest in models.items()
            if (late := approximately_forgotten(manifest.get("data") or {}))
        ),
    ]
    document = {**asdict(revision), "models_forgotten_since": outdated}
    print_result(document, "\n".join(lines), as_json, indent=2)
    for name in revision.users_not_found:
        typer.echo(f"not found: {name!r}", err=True)
    if revision.users_not_found:
        raise typer.Exit(1)


def _model_line(path: str, users: int | None) -> str:
    if users is None:
        return f"{path}: does not say what it was made from; make it again"
    if users:
        return f"{path}: made before {users:,} users were forgotten; make it again"
    return f"{path}: includes every removal"


def _summary(revision: "Revision", requested: int, out: Path) -> str:
    lines = [
        f"{revision.users_removed:,} of {requested:,} users had rows; "
        f"{revision.rows_removed:,} rows removed",
        f"written to {out}",
        "models made before this still know these users: fit or train them again",
    ]
    if revision.unattributed_excerpts:
        lines.append(
            f"{revision.unattributed_excerpts:,} rejected rows with an excerpt name nobody and "
            "stay; look at rejected.ndjson.gz"
        )
    return "\n".join(lines)


def update(
    data: DataFolder,
    logs: Annotated[
        list[str] | None,
        typer.Argument(help="New log files or folders, of the same format.", metavar="LOG"),
    ] = None,
    keep_days: Annotated[
        int | None,
        typer.Option(
            "--keep-days", help="Keep the last N days of the log; older rows are removed."
        ),
    ] = None,
    new_only: Annotated[
        bool,
        typer.Option("--new-only", help="Leave out files whose content the folder has already."),
    ] = False,
    out: OtherFolder = None,
    as_json: AsJson = False,
) -> None:
    """Add new logs to a data folder without reading the old ones again.

    Example: `nextquery update data/ 2026-11-16.tsv --keep-days 90`
    """
    from nextquery.cli.prepare import progress_bar
    from nextquery.logs.revise import update as run

    with progress_bar() as progress:
        revision = run(
            data, logs or [], out, keep_days=keep_days, new_only=new_only, progress=progress
        )
    sessions = revision.counts["sessions"]
    text = (
        f"{revision.rows_added:,} rows added, {revision.rows_removed:,} removed\n"
        f"sessions: {', '.join(f'{name} {count:,}' for name, count in sessions.items())}\n"
        f"written to {out or data}"
    )
    print_result(asdict(revision), text, as_json, indent=2)

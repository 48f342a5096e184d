"""`nextquery feedback`: what visitors were shown and took, and what follows from it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from nextquery.feedback.settings import Bounds, CompareSettings, ReportSettings, RerankSettings

feedback = typer.Typer(
    help="Report on feedback, compare models by it, learn from it.", no_args_is_help=True
)
Folder = Annotated[Path, typer.Argument(help="The folder of `serve --feedback`.")]
PerVisitor = Annotated[
    int, typer.Option(min=0, help="Lists of one visitor and day that count; 0: all.")
]
PerOrigin = Annotated[
    int, typer.Option(min=0, help="Lists of one origin and day that count; 0: all.")
]
Since = Annotated[str, typer.Option(metavar="DAY", help="The first day that counts: 2026-05-01.")]
Until = Annotated[str, typer.Option(metavar="DAY", help="The last day that counts.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@feedback.command()
def report(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="The report folder to write.")],
    per_visitor: PerVisitor = Bounds.per_visitor,
    per_origin: PerOrigin = Bounds.per_origin,
    min_visitors: Annotated[
        int, typer.Option(min=1, help="Queries of fewer visitors are not named.")
    ] = ReportSettings.min_visitors,
    min_shown: Annotated[
        int, typer.Option(min=1, help="How often a list was shown that is named as never taken.")
    ] = ReportSettings.min_shown,
    queries: Annotated[
        int, typer.Option(min=1, help="How many queries are named.")
    ] = ReportSettings.queries,
    since: Since = Bounds.since,
    until: Until = Bounds.until,
    as_json: AsJson = False,
) -> None:
    """What was shown, taken and dismissed, by position, model, query, source and day.

    Example: `nextquery feedback report runs/feedback --out runs/feedback-report`
    """
    from nextquery.evaluation.steps import to_json
    from nextquery.feedback.report import make_report

    bounds = Bounds(per_visitor, per_origin, since, until)
    settings = ReportSettings(min_visitors, min_shown, queries)
    made = make_report(folder, out, bounds, settings)
    if as_json:
        typer.echo(json.dumps(to_json(made), indent=2))
        return
    lists = made.lists
    typer.echo(
        f"{lists.shown:,} lists, {lists.visitors:,} visitors: taken from {lists.share:.1%} "
        f"({lists.low:.1%} to {lists.high:.1%}), dismissed {lists.dismissed:,}"
    )
    for model, found in made.by_model.items():
        typer.echo(f"{model}: {found.taken:,} of {found.shown:,} suggestions accepted")
    typer.echo(f"{len(made.never_taken)} queries with many lists and no accepted suggestion")
    for why, count in made.excluded.items():
        typer.echo(f"excluded: {count:,} ({why})")
    typer.echo(f"Report: {out / 'index.html'}")


@feedback.command()
def compare(
    folder: Folder,
    alpha: Annotated[
        float, typer.Option(help="How often a winner may be named where there is none.")
    ] = CompareSettings.alpha,
    power: Annotated[
        float, typer.Option(help="How often a difference of --smallest-effect is to be found.")
    ] = CompareSettings.power,
    smallest_effect: Annotated[
        float, typer.Option(help="The smallest relative difference in acceptance worth knowing.")
    ] = CompareSettings.smallest_effect,
    per_visitor: PerVisitor = Bounds.per_visitor,
    per_origin: PerOrigin = Bounds.per_origin,
    since: Since = Bounds.since,
    until: Until = Bounds.until,
    as_json: AsJson = False,
) -> None:
    """Which model of a trial is better, or how many impressions are needed to say.

    May be asked every day: the test stays valid however often one looks.

    Example: `nextquery feedback compare runs/feedback --smallest-effect 0.1`
    """
    from datetime import UTC, datetime

    from nextquery.evaluation.steps import to_json
    from nextquery.feedback.compare import compare as compare_models
    from nextquery.feedback.impressions import read_feedback

    settings = CompareSettings(alpha, power, smallest_effect)
    bounds = Bounds(per_visitor, per_origin, since, until)
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    found = compare_models(read_feedback(folder, bounds), settings, today)
    if as_json:
        typer.echo(json.dumps(to_json(found), indent=2))
        return
    for trial in found.trials:
        typer.echo(
            f"{trial.kind} {trial.first.name} against {trial.second.name}: {trial.decision} "
            f"(p {trial.p:.3g}, {trial.estimate:.3f}, {trial.low:.3f} to {trial.high:.3f}, "
            f"{trial.impressions:,} impressions, at most {trial.needed:,} more)"
        )
    for shadow in found.shadows:
        typer.echo(
            f"shadow {shadow.model}: {shadow.overlap:.0%} of {shadow.lists:,} lists in common, "
            f"the same first suggestion in {shadow.same_first:.0%}"
        )


@feedback.command()
def rerank(
    folder: Folder,
    base: Annotated[Path, typer.Option(help="The model whose lists are to be ordered anew.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    name: Annotated[
        str, typer.Option(help="The name under which BASE was served; its kind if left out.")
    ] = "",
    min_taken: Annotated[
        int, typer.Option(min=1, help="Fewer taken suggestions are not learnt from.")
    ] = RerankSettings.min_taken,
    min_visitors: Annotated[
        int, typer.Option(min=1, help="What fewer visitors were shown is not remembered.")
    ] = RerankSettings.min_visitors,
    per_visitor: PerVisitor = Bounds.per_visitor,
    per_origin: PerOrigin = Bounds.per_origin,
    since: Since = Bounds.since,
    until: Until = Bounds.until,
    as_json: AsJson = False,
) -> None:
    """Learn from what was taken to order a model's lists, and publish that as a model folder.

    Published only if taken suggestions stand higher for visitors that it did not learn from.

    Example: `nextquery feedback rerank runs/feedback --base runs/adj --out runs/reranked`
    """
    from nextquery.evaluation.steps import to_json
    from nextquery.feedback.impressions import read_feedback
    from nextquery.feedback.rerank_training import make_reranker

    bounds = Bounds(per_visitor, per_origin, since, until)
    shown = read_feedback(folder, bounds).impressions
    made = make_reranker(shown, base, out, name, RerankSettings(min_taken, min_visitors))
    if as_json:
        typer.echo(json.dumps(to_json(made), indent=2))
        return
    typer.echo(
        f"Learnt from {made.impressions:,} lists. What other visitors took stands higher: "
        f"mean reciprocal rank {made.gain.base:.3f} -> {made.gain.reranked:.3f} "
        f"(gain {made.gain.low:+.3f} to {made.gain.high:+.3f}, {made.gain.cases:,} takes)"
    )
    typer.echo(f"Model: {out}\nNext: serve it in a trial with its base, and ask the guard:")
    typer.echo(f"  nextquery feedback guard {folder} --model {out}")


@feedback.command()
def guard(
    folder: Folder,
    model: Annotated[
        Path, typer.Option(help="The re-ranker; written again if it is switched off.")
    ],
    alpha: Annotated[
        float, typer.Option(help="How often it may be switched off though it is not worse.")
    ] = CompareSettings.alpha,
    per_visitor: PerVisitor = Bounds.per_visitor,
    per_origin: PerOrigin = Bounds.per_origin,
    since: Since = Bounds.since,
    until: Until = Bounds.until,
    as_json: AsJson = False,
) -> None:
    """Switch a re-ranker off if visitors take less from it than from its base model.

    May be asked every few minutes. The service must reload (SIGHUP) to follow.

    Example: `nextquery feedback guard runs/feedback --model runs/reranked`
    """
    from nextquery.evaluation.steps import to_json
    from nextquery.feedback.compare import guard_reranker
    from nextquery.feedback.impressions import read_feedback

    bounds = Bounds(per_visitor, per_origin, since, until)
    found = guard_reranker(read_feedback(folder, bounds), model, CompareSettings(alpha=alpha))
    if as_json:
        typer.echo(json.dumps(to_json(found), indent=2))
        return
    typer.echo(f"{'on' if found.enabled else 'off'}: {found.reason}")
    if found.switched_off:
        typer.echo("Reload the service (SIGHUP or POST /admin/reload) to follow.")

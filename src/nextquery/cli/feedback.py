"""`nextquery feedback`: what visitors were shown and accepted, and what follows from it."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.options import AsJson, print_result, with_settings
from nextquery.feedback.settings import Bounds, CompareSettings, ReportSettings, RerankSettings

feedback = typer.Typer(
    help="Report on feedback, compare models by it, learn from it.", no_args_is_help=True
)
Folder = Annotated[Path, typer.Argument(help="The folder of `serve --feedback`.")]


@feedback.command()
@with_settings
def report(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="The report folder to write.")],
    settings: ReportSettings,
    bounds: Bounds,
    as_json: AsJson = False,
) -> None:
    """Report what was shown, accepted and dismissed, by position, model, query, source and day.

    Example: `nextquery feedback report runs/feedback --out runs/feedback-report`
    """
    from nextquery.evaluation.steps import to_json
    from nextquery.feedback.report import make_report

    page = make_report(folder, out, bounds, settings)
    lists = page.lists
    lines = [
        f"{lists.shown:,} lists, {lists.visitors:,} visitors: accepted from {lists.share:.1%} "
        f"({lists.low:.1%} to {lists.high:.1%}), dismissed {lists.dismissed:,}",
        *(
            f"{model}: {counts.taken:,} of {counts.shown:,} suggestions accepted"
            for model, counts in page.by_model.items()
        ),
        f"{len(page.never_taken)} queries with many lists and no accepted suggestion",
        *(f"excluded: {count:,} ({reason})" for reason, count in page.excluded.items()),
        f"Report: {out / 'index.html'}",
    ]
    print_result(to_json(page), "\n".join(lines), as_json, indent=2)


@feedback.command()
@with_settings
def compare(
    folder: Folder, settings: CompareSettings, bounds: Bounds, as_json: AsJson = False
) -> None:
    """Say which model of a trial is better, or how many impressions are needed to say it.

    The test stays valid however often it is asked, for instance every day.

    Example: `nextquery feedback compare runs/feedback --smallest-effect 0.1`
    """
    from datetime import UTC, datetime

    from nextquery.evaluation.steps import to_json
    from nextquery.feedback.compare import compare as compare_models
    from nextquery.feedback.impressions import read_feedback

    today = datetime.now(UTC).strftime("%Y-%m-%d")
    comparison = compare_models(read_feedback(folder, bounds), settings, today)
    lines = [
        f"{trial.kind} {trial.first.name} against {trial.second.name}: {trial.decision} "
        f"(p {trial.p:.3g}, {trial.estimate:.3f}, {trial.low:.3f} to {trial.high:.3f}, "
        f"{trial.impressions:,} impressions, at most {trial.needed:,} more)"
        for trial in comparison.trials
    ]
    lines += [
        f"shadow {shadow.model}: {shadow.overlap:.0%} of {shadow.lists:,} lists in common, "
        f"the same first suggestion in {shadow.same_first:.0%}"
        for shadow in comparison.shadows
    ]
    print_result(to_json(comparison), "\n".join(lines), as_json, indent=2)


@feedback.command()
@with_settings
def rerank(
    folder: Folder,
    base: Annotated[Path, typer.Option(help="The model whose lists are to be re-ranked.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    settings: RerankSettings,
    bounds: Bounds,
    name: Annotated[
        str, typer.Option(help="The name under which BASE was served; its kind if left out.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Learn from accepted suggestions to re-rank a model's lists, and publish that as a model.

    Published only if accepted suggestions rank higher for visitors that it did not learn from.

    Example: `nextquery feedback rerank runs/feedback --base runs/adj --out runs/reranked`
    """
    from nextquery.evaluation.steps import to_json
    from nextquery.feedback.impressions import read_feedback
    from nextquery.feedback.rerank_training import make_reranker

    shown = read_feedback(folder, bounds).impressions
    summary = make_reranker(shown, base, out, name, settings)
    text = (
        f"Learnt from {summary.impressions:,} lists. What other visitors accepted ranks higher: "
        f"mean reciprocal rank {summary.gain.base:.3f} -> {summary.gain.reranked:.3f} "
        f"(gain {summary.gain.low:+.3f} to {summary.gain.high:+.3f}, "
        f"{summary.gain.cases:,} accepted)\n"
        f"Model: {out}\nNext: serve it in a trial with its base, and ask the guard:\n"
        f"  nextquery feedback guard {folder} --model {out}"
    )
    print_result(to_json(summary), text, as_json, indent=2)


@feedback.command()
@with_settings
def guard(
    folder: Folder,
    model: Annotated[
        Path, typer.Option(help="The re-ranker; written again if it is switched off.")
    ],
    bounds: Bounds,
    alpha: Annotated[
        float,
        typer.Option(help="Maximum probability of switching it off although it is not worse."),
    ] = CompareSettings.alpha,
    as_json: AsJson = False,
) -> None:
    """Switch a re-ranker off if visitors accept less of it than of its base model.

    May be asked every few minutes. The service must reload (SIGHUP) to follow.

    Example: `nextquery feedback guard runs/feedback --model runs/reranked`
    """
    from nextquery.evaluation.steps import to_json
    from nextquery.feedback.compare import guard_reranker
    from nextquery.feedback.impressions import read_feedback

    verdict = guard_reranker(read_feedback(folder, bounds), model, CompareSettings(alpha=alpha))
    text = f"{'on' if verdict.enabled else 'off'}: {verdict.reason}"
    if verdict.switched_off:
        text += "\nReload the service (SIGHUP or POST /admin/reload) to follow."
    print_result(to_json(verdict), text, as_json, indent=2)

"""The learning curve as a plot, a table and a sentence.

Knows the curve's record; one panel each for ranking, coverage and perplexity.
"""

from pathlib import Path

from matplotlib.axes import Axes

from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.report.html import Cell, Row, table
from nextquery.evaluation.report.plot_style import (
    FAINT,
    colour,
    label,
    svg_plot,
    write_powers_plainly,
)


def draw_learning_curve(curve: LearningCurve, models: tuple[str, ...], path: Path) -> None:
    """MRR, coverage and perplexity against the number of background sessions."""
    ranked = ["adj", "qvmm", "baseline", *(f"baseline+{model}:sum" for model in models)]
    alone = list(curve.points[-1].alone)
    with svg_plot(path, 11.0, 3.4, 3) as (ranking, coverage, perplexity):
        for system in ranked:
            values = [p.ranking[system].mrr if p.ranking else None for p in curve.points]
            _line(ranking, curve, values, system, models)
        for system in alone:
            found = [point.alone[system] for point in curve.points]
            _line(coverage, curve, [each.coverage for each in found], system, models)
            _line(perplexity, curve, [each.perplexity for each in found], system, models)
        ranking.set_title("MRR, every context")
        coverage.set_title("Contexts with a suggestion")
        perplexity.set_title("Perplexity per word")
        perplexity.set_yscale("log")
        write_powers_plainly(perplexity.yaxis)
        for axes in (ranking, coverage, perplexity):
            axes.set_xscale("log")
            write_powers_plainly(axes.xaxis)
            axes.set_xlabel("background sessions")
            axes.grid(color=FAINT, alpha=0.3)
        ranking.legend(frameon=False, fontsize=8)
        coverage.legend(frameon=False, fontsize=8)


def _line(
    axes: Axes,
    curve: LearningCurve,
    values: list[float | None],
    system: str,
    models: tuple[str, ...],
) -> None:
    points = [(p.sessions, v) for p, v in zip(curve.points, values, strict=True) if v is not None]
    if points:
        style = "o-" if _refitted(curve, system) else "o--"
        axes.plot(*zip(*points, strict=True), style, label=label(system), ms=4,
                  color=colour(system, models))  # fmt: skip


def curve_table(curve: LearningCurve, models: tuple[str, ...]) -> str:
    """One row per size: the Baseline Ranker, and what each model adds to it."""
    heads: list[Cell | str] = ["Background sessions", "users", "ADJ", "Baseline Ranker"]
    heads += [f"+ {label(model)} (sum only)" for model in models]
    rows: list[Row] = []
    for point in curve.points:
        row: list[Cell | str] = [f"{point.sessions:,}", f"{point.users:,}"]
        for system in ("adj", "baseline"):
            row.append(f"{point.ranking[system].mrr:.4f}" if point.ranking else "too few cases")
        for model in models:
            gain = point.gain(model)
            text = f"{gain.relative:+.1%}" if gain else "too few cases"
            row.append(Cell(text, "", f"p = {gain.p:.2g}" if gain else ""))
        rows.append(row)
    return table(heads, rows)


def curve_sentences(curve: LearningCurve, models: tuple[str, ...]) -> list[str]:
    """From which size on each model pays, and whether it was trained at each size."""
    sentences = []
    for model in models:
        begins = curve.begins_to_pay(model)
        if begins == curve.points[0].sessions:
            paid = f"pays already at the smallest size measured, {begins:,} background sessions."
        elif begins:
            paid = f"begins to pay at about {begins:,} background sessions."
        else:
            paid = "does not pay (p < .01) at the largest size measured."
        trained = (
            " It was trained anew at every size."
            if model in curve.refitted
            else " It is the same model at every size: only counts and rankers were fitted anew."
        )
        sentences.append(f"{label(model)} {paid}{trained}")
    return sentences


def _refitted(curve: LearningCurve, system: str) -> bool:
    return system.partition("+")[2].partition(":")[0] in curve.refitted or system in curve.refitted

"""The figures of docs/results/synthetic.md, drawn from its JSON files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from nextquery.evaluation.report.plots import FAINT, INK, svg_plot, write_powers_plainly
from research.log_sizes import FEATURE, committed
from research.size_tables import TITLES_OF_CURVES
from research.tables import FORMS, ROOT, TITLES, read

FIGURES = ROOT / "docs" / "figures"
COLOURS = {"all": "#c8403f", "first": "#35618f"}
SIZE_COLOURS = {"copying": "#c8403f", "plain": "#35618f"}
CHANCE, TOLD = 2.77, 1.5
"""Nats of a model that sees no intent, and of one that is told it."""

Document = Mapping[str, Any]


def draw_all(folder: Path = FIGURES) -> None:
    """Every figure of the page."""
    study = read("synthetic")
    with svg_plot(folder / "evidence_gains.svg", 9.0, 3.2, len(study["scenarios"])) as axes:
        for axis, (name, scenario) in zip(axes, study["scenarios"].items(), strict=True):
            _gains(axis, name, scenario, list(study["models"]))
    with svg_plot(folder / "evidence_intent.svg", 8.0, 3.4) as axes:
        _curves(axes[0], study["curves"])
    with svg_plot(folder / "evidence_contexts.svg", 9.0, 3.2, len(study["scenarios"])) as axes:
        for axis, (name, scenario) in zip(axes, study["scenarios"].items(), strict=True):
            _contexts(axis, name, scenario)
    sizes = committed()
    if sizes:
        with svg_plot(folder / "evidence_sizes.svg", 11.0, 3.4, 3) as axes:
            _sizes(axes, sizes)


def _sizes(axes: Sequence[Axes], curves: Document) -> None:
    """Gain, coverage and perplexity against the number of background sessions."""
    for name, points in curves.items():
        sessions = [point["sessions"] for point in points]
        gains = [point["gains"][FEATURE] for point in points]
        bases = [point["mrr"]["baseline"] for point in points]
        low, high = (
            [gain[end] / base * 100 for gain, base in zip(gains, bases, strict=True)]
            for end in ("difference_low", "difference_high")
        )
        shown = [gain["relative"] * 100 for gain in gains]
        text = TITLES_OF_CURVES[name]
        axes[0].plot(sessions, shown, "o-", color=SIZE_COLOURS[name], label=f"+ HRED {text}")
        axes[0].fill_between(sessions, low, high, color=SIZE_COLOURS[name], alpha=0.2)
        for axis, value in ((axes[1], "coverage"), (axes[2], "perplexity")):
            for system, style in (("hred", "o-"), ("qvmm", "x:"), ("adj", "+:")):
                if system == "adj" and value == "perplexity":
                    continue  # it has no probability for most queries
                shown = [point["alone"][system][value] for point in points]
                label = f"HRED {text}" if system == "hred" else f"{system.upper()}, its log"
                axis.plot(sessions, shown, style, color=SIZE_COLOURS[name], label=label)
    axes[0].axhline(0, color=FAINT, linewidth=1)
    axes[0].set_title("gain over the Baseline Ranker, %")
    axes[1].set_title("contexts with a suggestion")
    axes[2].set_title("perplexity per word")
    axes[2].set_yscale("log")
    write_powers_plainly(axes[2].yaxis)
    for axis in axes:
        axis.set_xscale("log")
        write_powers_plainly(axis.xaxis)
        axis.set_xlabel("background sessions")
        axis.legend(frameon=False, fontsize=8)


def _form(model: str) -> str:
    return model.partition("-")[0]


def _gains(axis: Axes, name: str, scenario: Document, models: list[str]) -> None:
    """A dot with its interval for each model, in percent of the Baseline Ranker's MRR."""
    base = scenario["mrr"]["baseline"]
    for row, model in enumerate(models):
        gain = scenario["gains"][f"baseline+{model} over baseline"]
        low, high = (gain[key] / base * 100 for key in ("difference_low", "difference_high"))
        axis.plot([low, high], [row, row], color=COLOURS[_form(model)], linewidth=2)
        axis.plot(gain["relative"] * 100, row, "o", color=COLOURS[_form(model)])
    axis.axvline(0, color=FAINT, linewidth=1)
    axis.set_yticks(range(len(models)), models)
    axis.invert_yaxis()
    axis.set_title(TITLES[name])
    axis.set_xlabel("gain over the Baseline Ranker, %")


def _curves(axis: Axes, curves: Document) -> None:
    """The probe after every thousand steps, one line per model."""
    named: set[str] = set()
    for model, points in curves.items():
        form = _form(model)
        text = None if form in named else FORMS[form]
        named.add(form)
        steps = [point["step"] for point in points]
        nats = [point["nats"] for point in points]
        axis.plot(steps, nats, color=COLOURS[form], marker=".", label=text)
    for level, text in ((CHANCE, "chance"), (TOLD, "told the intent")):
        axis.axhline(level, color=FAINT, linewidth=1, linestyle=":")
        axis.text(0.01, level, text, transform=axis.get_yaxis_transform(), color=INK, va="bottom")
    axis.set_xlabel("steps of 1,024 symbols")
    axis.set_ylabel("nats of the true outcome among 16")
    axis.legend(frameon=False)


def _contexts(axis: Axes, name: str, scenario: Document) -> None:
    """The MRR on long sessions by the queries that HRED sees."""
    for model, figures in scenario["by_context_length"].items():
        values = [figures["mrr"][seen] for seen in ("1", "2", "3", "all")]
        axis.plot(["1", "2", "3", "all"], values, color=COLOURS[_form(model)], marker=".")
    axis.set_title(TITLES[name])
    axis.set_xlabel("queries that HRED sees")
    axis.set_ylabel("MRR, long sessions")

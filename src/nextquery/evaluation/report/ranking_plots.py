"""The report's plots of ranking, as SVG.

Knows results, and one message for each plot. Knows nothing of how a number came about.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes

from nextquery.evaluation.ranking.metrics import Quality
from nextquery.evaluation.ranking.scenario_result import ScenarioResult
from nextquery.evaluation.ranking.scenarios import SCENARIOS
from nextquery.evaluation.report.plot_style import FAINT, FIXED, INK, colour, label, svg_plot
from nextquery.evaluation.results import ExperimentResults, with_enough_cases


def draw_scenarios(
    results: ExperimentResults, shown: Mapping[str, ScenarioResult], path: Path
) -> None:
    """MRR with its interval for the paper's systems, one panel per scenario shown."""
    scenarios = with_enough_cases(shown)
    systems = results.main_systems[::-1]
    models = results.systems.models
    with svg_plot(
        path, 3.1 * len(scenarios) + 0.8, 0.9 + 0.42 * len(systems), len(scenarios)
    ) as all_:
        for number, (axes, (name, found)) in enumerate(zip(all_, scenarios.items(), strict=True)):
            for place, system in enumerate(systems):
                quality = found.systems[system]
                shade = colour(system, models)
                axes.plot(
                    [quality.mrr_low, quality.mrr_high],
                    [place, place],
                    color=shade,
                    lw=5,
                    alpha=0.3,
                )
                axes.plot(quality.mrr, place, "o", color=shade, ms=8)
                axes.annotate(
                    f"{quality.mrr:.3f}",
                    (quality.mrr, place),
                    xytext=(0, 8),
                    textcoords="offset points",
                    ha="center",
                    fontsize=9,
                )
            axes.set_yticks(range(len(systems)), [label(system) for system in systems])
            axes.set_ylim(-0.5, len(systems) - 0.3)
            axes.set_title(SCENARIOS[name].title)
            axes.set_xlabel("MRR, 95% interval")
            axes.grid(axis="x", color=FAINT, alpha=0.3)
            if number:
                axes.set_yticklabels([])


def draw_session_lengths(results: ExperimentResults, path: Path) -> None:
    """MRR of the paper's systems in short, medium and long sessions, one panel per scenario."""
    scenarios = results.reported
    models = results.systems.models
    with svg_plot(path, 3.4 * len(scenarios) + 0.4, 3.0, len(scenarios)) as all_axes:
        for axes, (name, found) in zip(all_axes, scenarios.items(), strict=True):
            lengths = found.by_session_length
            usable = [key for key in lengths if lengths[key].systems]
            for system in results.main_systems:
                _curve(axes, [lengths[key].systems[system] for key in usable], system, models)
            labels = [f"{key}\n({lengths[key].cases:,})" for key in usable]
            axes.set_xticks(range(len(usable)), labels)
            axes.set_xlim(-0.4, len(usable) - 0.6)
            axes.set_title(SCENARIOS[name].title)
            axes.grid(axis="y", color=FAINT, alpha=0.3)
        all_axes[0].set_ylabel("MRR")
        all_axes[-1].legend(frameon=False, fontsize=8, loc="best")


def _curve(axes: Axes, qualities: Sequence[Quality], system: str, models: Sequence[str]) -> None:
    shade = colour(system, models)
    places = range(len(qualities))
    means = [each.mrr for each in qualities]
    axes.plot(places, means, "o-", color=shade, label=label(system), lw=2)
    lows, highs = [each.mrr_low for each in qualities], [each.mrr_high for each in qualities]
    axes.fill_between(places, lows, highs, color=shade, alpha=0.12, lw=0)


def draw_context_lengths(results: ExperimentResults, path: Path) -> bool:
    """MRR on long sessions by how many queries the model sees; False if there is nothing."""
    scenarios = {
        name: found
        for name, found in results.reported.items()
        if any(each.queries for each in found.by_context_length.values())
    }
    if not scenarios:
        return False
    models = results.systems.models
    with svg_plot(path, 3.4 * len(scenarios) + 0.4, 3.0, len(scenarios)) as all_axes:
        for axes, (name, found) in zip(all_axes, scenarios.items(), strict=True):
            for model in models:
                queries = found.by_context_length[model].queries
                system = f"baseline+{model}"
                _curve(axes, [each[system] for each in queries.values()], system, models)
                axes.set_xticks(range(len(queries)), list(queries))
            baseline = found.by_session_length["long"].systems["baseline"].mrr
            axes.axhline(baseline, color=FIXED["baseline"], ls="--", lw=1.5)
            axes.annotate(
                "Baseline Ranker, whole context",
                (0, baseline),
                xytext=(0, 4),
                textcoords="offset points",
                color=FIXED["baseline"],
                fontsize=8,
            )
            axes.set_title(SCENARIOS[name].title)
            axes.set_xlabel("queries that the model sees")
            axes.grid(axis="y", color=FAINT, alpha=0.3)
        all_axes[0].set_ylabel("MRR, long sessions")
        all_axes[-1].legend(frameon=False, fontsize=8, loc="lower right")
    return True


def draw_length_shares(results: ExperimentResults, path: Path) -> None:
    """How many test sessions of each scenario are short, medium and long (Figure 4)."""
    scenarios = {n: f for n, f in results.scenarios.items() if f.cases["test"]}
    shades = {"short": "#c9d6e3", "medium": "#7fa3c7", "long": "#35618f"}
    with svg_plot(path, 6.4, 0.9 + 0.42 * len(scenarios)) as (axes,):
        for place, found in enumerate(reversed(scenarios.values())):
            left = 0.0
            for key, share in found.session_lengths.items():
                assert share is not None, "there are test cases"
                axes.barh(place, share, left=left, color=shades[key], height=0.62)
                if share > 0.06:
                    ink = "white" if key == "long" else INK
                    text = f"{share:.0%}"
                    axes.text(left + share / 2, place, text, ha="center", va="center", color=ink)
                left += share
        names = [SCENARIOS[name].title for name in reversed(scenarios)]
        axes.set_yticks(range(len(names)), names)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        handles = [mpl.patches.Patch(color=shade) for shade in shades.values()]
        names = ["short (2 queries)", "medium (3-4)", "long (5 or more)"]
        axes.legend(handles, names, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def draw_importances(results: ExperimentResults, path: Path) -> None:
    """Which features the rankers with a model's score rely on, one panel per scenario."""
    scenarios = results.reported
    models = results.systems.models
    system = f"baseline+{models[0]}"
    with svg_plot(path, 3.2 * len(scenarios) + 0.6, 3.4, len(scenarios)) as all_axes:
        for axes, (name, found) in zip(all_axes, scenarios.items(), strict=True):
            shares = found.rankers[system].importances
            best = sorted(shares, key=lambda each: shares[each])[-8:]
            shades = [colour(each, models) if ":" in each else FIXED["baseline"] for each in best]
            axes.barh(range(len(best)), [shares[each] for each in best], color=shades, height=0.65)
            axes.set_yticks(range(len(best)), [each.replace("_", " ") for each in best])
            axes.tick_params(axis="y", labelsize=8)
            axes.set_title(SCENARIOS[name].title)
            axes.set_xlabel("share of the gain")

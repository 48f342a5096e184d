"""Plots of the experiment report, as SVG."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from nextquery.evaluation.comparison import Quality, RankedSystem, label
from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.probes.gates import GateComparison, GateExample, ProjectedText
from nextquery.evaluation.results import ExperimentResults, with_enough_cases
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.scenarios import SCENARIOS

INK, FAINT, PAPER_COLOUR = "#1f2933", "#9aa5b1", "#b8a15a"
_MODEL_COLOURS = ("#c8403f", "#e08a1e", "#7b4fa3", "#2a8c6a")
FIXED = {"adj": "#8a94a0", "baseline": "#35618f"}

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "svg.fonttype": "path",
    "svg.hashsalt": "nextquery",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "text.parse_math": False,  # a model may be called A$\\frac$
}


@contextmanager
def svg_plot(path: Path, width: float, height: float, columns: int = 1) -> Iterator[list[Axes]]:
    """Axes next to each other that become the SVG file `path`."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield list(figure.subplots(1, columns, squeeze=False)[0])
        figure.savefig(path, format="svg", metadata={"Date": None}, transparent=True)


def write_near(
    axes: Axes, text: str, point: tuple[float, float], shift: tuple[int, int], **style: Any
) -> None:
    """Write a text some points to the right of and above a place."""
    axes.annotate(text, point, xytext=shift, textcoords="offset points", **style)


def write_powers_plainly(axis: Axis) -> None:
    """Of a logarithmic axis: Matplotlib writes formulas, and no text is one in these plots."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter("")


def colour(system: str, models: Sequence[str]) -> str:
    """The colour of a system, the same in every plot."""
    model = RankedSystem.parse(system).model
    if model in models:
        return _MODEL_COLOURS[list(models).index(model) % len(_MODEL_COLOURS)]
    return FIXED.get(system, FAINT)


def draw_learning_curve(curve: LearningCurve, models: tuple[str, ...], path: Path) -> None:
    """MRR, coverage and perplexity against the number of background sessions."""
    ranked = ["adj", "qvmm", "baseline"]
    ranked += [RankedSystem("baseline", model, "sum").key for model in models]
    alone = list(curve.points[-1].alone)
    with svg_plot(path, 11.0, 3.4, 3) as (ranking, coverage, perplexity):
        for system in ranked:
            values = [p.ranking[system].mrr if p.ranking else None for p in curve.points]
            _line(ranking, curve, values, system, models)
        for system in alone:
            qualities = [point.alone[system] for point in curve.points]
            _line(coverage, curve, [quality.coverage for quality in qualities], system, models)
            _line(perplexity, curve, [quality.perplexity for quality in qualities], system, models)
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


def _refitted(curve: LearningCurve, system: str) -> bool:
    parsed = RankedSystem.parse(system)
    return (parsed.model or parsed.base) in curve.refitted


_LABEL_HEIGHT = 0.034
_LETTER_WIDTH = 0.0115


def draw_generation(results: ExperimentResults, path: Path) -> None:
    """Whether the true next query is among the first suggestions, by known and unknown anchor."""
    systems = {name: lists.groups() for name, lists in results.generation.systems.items()}
    models = results.systems.models
    names = list(systems)[::-1]
    panels = {"known_anchor": "Anchor known", "unknown_anchor": "Anchor never seen"}
    shown = {key: text for key, text in panels.items() if all(key in systems[n] for n in names)}
    if not shown:
        shown = {"all": "All contexts"}
    with svg_plot(path, 4.0 * len(shown) + 0.6, 0.8 + 0.36 * len(names), len(shown)) as all_axes:
        for number, (axes, (key, title)) in enumerate(zip(all_axes, shown.items(), strict=True)):
            for row, name in enumerate(names):
                quality = systems[name][key]
                shade = colour(name, models)
                axes.plot([0, quality.hit_20], [row] * 2, color=shade, lw=6, alpha=0.25)
                axes.plot([0, quality.hit_5], [row] * 2, color=shade, lw=6, alpha=0.5)
                axes.plot([0, quality.hit_1], [row] * 2, color=shade, lw=6)
                axes.text(quality.hit_20, row, f"  {quality.hit_20:.1%}", va="center")
            contexts = systems[names[0]][key].contexts
            axes.set_title(f"{title} ({contexts:,} contexts)")
            axes.set_yticks(range(len(names)), [label(n) for n in names] if not number else [])
            axes.set_ylim(-0.6, len(names) - 0.4)
            axes.margins(x=0.18)
            axes.set_xlim(left=0)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def draw_gates(example: GateExample, path: Path) -> None:
    """The update gates of one context with a noisy query (Figure 7)."""
    gates = np.array(example.gates)  # (queries, d_s)
    order = np.argsort(-gates.mean(axis=0))
    means = gates.mean(axis=1)
    with svg_plot(path, 7.4, 0.9 + 0.42 * len(gates)) as (axes,):
        axes.imshow(gates[:, order], aspect="auto", cmap="gray", vmin=0, vmax=1)
        names = [f"{q}   ({mean:.2f})" for q, mean in zip(example.queries, means, strict=True)]
        names[-1] = f"{names[-1]}  ← noise"
        axes.set_yticks(range(len(names)), names)
        axes.set_xticks([])
        axes.set_xlabel("dimensions of the session state; dark: the query is discarded")


def draw_gate_means(results: ExperimentResults, path: Path) -> None:
    """How far a context's own queries and inserted noise update the session state."""
    models = {name: g for name, g in results.gates.items() if isinstance(g, GateComparison)}
    with svg_plot(path, 5.4, 0.9 + 0.55 * len(models)) as (axes,):
        for row, (name, gates) in enumerate(reversed(models.items())):
            shade = colour(name, results.systems.models)
            original, noisy = gates.own_query, gates.noisy_query
            axes.plot([original, noisy], [row, row], color=FAINT, lw=2, zorder=1)
            axes.plot(original, row, "o", color=shade, ms=9)
            axes.plot(noisy, row, "o", markerfacecolor="white", markeredgecolor=shade, ms=9)
            sides = ((original, "own query", original >= noisy), (noisy, "noise", noisy > original))
            for value, text, right in sides:
                shift, side = (9, "left") if right else (-9, "right")
                write_near(
                    axes, f"{text} {value:.3f}", (value, row), (shift, 0), va="center", ha=side
                )
        axes.set_yticks(range(len(models)), [label(name) for name in reversed(models)])
        axes.set_ylim(-0.6, len(models) - 0.4)
        axes.margins(x=0.9)
        axes.set_xlabel("mean update gate")


def draw_boundaries(results: ExperimentResults, path: Path) -> None:
    """F1 of the ways to find session boundaries."""
    systems = results.boundaries.systems
    names = sorted(systems, key=lambda name: systems[name].f1)
    with svg_plot(path, 6.4, 0.8 + 0.32 * len(names)) as (axes,):
        values = [systems[name].f1 for name in names]
        shades = ["#c8403f" if "gates" in name else "#7fa3c7" for name in names]
        axes.barh(range(len(names)), values, color=shades, height=0.62)
        for row, value in enumerate(values):
            axes.text(value, row, f" {value:.3f}", va="center")
        axes.set_yticks(range(len(names)), names)
        axes.margins(x=0.12)
        axes.set_xlabel("F1 of the boundaries found")


def draw_projection(points: Sequence[ProjectedText], path: Path) -> None:
    """Texts on a plane; a label is written where no other stands yet."""
    positions = np.array([[point.x, point.y] for point in points])
    spread = np.ptp(positions, axis=0)
    positions = (positions - positions.min(axis=0)) / np.where(spread > 0, spread, 1.0)
    shades = colormaps["tab10"]
    with svg_plot(path, 9.6, 6.4) as (axes,):
        for point, position in zip(points, positions, strict=True):
            axes.plot(*position, "o", ms=3.5, color=shades(point.group % 10), alpha=0.7)
        _write_labels(axes, points, positions)
        axes.set_xlim(-0.03, 1.12)
        axes.set_axis_off()


def _write_labels(axes: Axes, points: Sequence[ProjectedText], positions: Any) -> None:
    """Label the points in their order, most frequent first, leaving out what would overlap."""
    boxes: list[tuple[float, float, float, float]] = []
    shades = colormaps["tab10"]
    for point, (x, y) in zip(points, positions, strict=True):
        text = point.text if len(point.text) <= 26 else point.text[:25] + "…"
        box = (x, y, x + _LETTER_WIDTH * len(text) + 0.01, y + _LABEL_HEIGHT)
        if any(_overlap(box, other) for other in boxes):
            continue
        boxes.append(box)
        ink = _darker(shades(point.group % 10))
        write_near(axes, text, (x, y), (4, 0), fontsize=8.5, va="center", color=ink)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _darker(shade: tuple[float, float, float, float]) -> Any:
    ink = np.array([int(INK[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return tuple(0.55 * np.array(shade[:3]) + 0.45 * ink)


def draw_scenarios(
    results: ExperimentResults, shown: Mapping[str, ScenarioResult], path: Path
) -> None:
    """MRR with its interval for the paper's systems, one panel per scenario shown."""
    scenarios = with_enough_cases(shown)
    systems = results.main_systems[::-1]
    models = results.systems.models
    width, height = 3.1 * len(scenarios) + 0.8, 0.9 + 0.42 * len(systems)
    with svg_plot(path, width, height, len(scenarios)) as all_axes:
        for axes, (name, scenario) in zip(all_axes, scenarios.items(), strict=True):
            for row, system in enumerate(systems):
                quality = scenario.systems[system]
                shade = colour(system, models)
                axes.plot(list(quality.interval), [row, row], color=shade, lw=5, alpha=0.3)
                axes.plot(quality.mrr, row, "o", color=shade, ms=8)
                point = quality.mrr, row
                write_near(axes, f"{quality.mrr:.3f}", point, (0, 8), ha="center", fontsize=9)
            axes.set_yticks(range(len(systems)), [label(system) for system in systems])
            axes.set_ylim(-0.5, len(systems) - 0.3)
            axes.set_title(SCENARIOS[name].title)
            axes.set_xlabel("MRR, 95% interval")
            axes.grid(axis="x", color=FAINT, alpha=0.3)
        for axes in all_axes[1:]:
            axes.set_yticklabels([])


def draw_session_lengths(results: ExperimentResults, path: Path) -> None:
    """MRR of the paper's systems in short, medium and long sessions, one panel per scenario."""
    scenarios = results.reported
    models = results.systems.models
    with svg_plot(path, 3.4 * len(scenarios) + 0.4, 3.0, len(scenarios)) as all_axes:
        for axes, (name, scenario) in zip(all_axes, scenarios.items(), strict=True):
            lengths = scenario.by_session_length
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
    xs = range(len(qualities))
    means = [quality.mrr for quality in qualities]
    axes.plot(xs, means, "o-", color=shade, label=label(system), lw=2)
    lows, highs = zip(*(quality.interval for quality in qualities), strict=True)
    axes.fill_between(xs, lows, highs, color=shade, alpha=0.12, lw=0)


def draw_context_lengths(results: ExperimentResults, path: Path) -> bool:
    """MRR on long sessions by how many queries the model sees; False if there is nothing."""
    scenarios = {
        name: scenario
        for name, scenario in results.reported.items()
        if any(result.queries for result in scenario.by_context_length.values())
    }
    if not scenarios:
        return False
    models = results.systems.models
    with svg_plot(path, 3.4 * len(scenarios) + 0.4, 3.0, len(scenarios)) as all_axes:
        for axes, (name, scenario) in zip(all_axes, scenarios.items(), strict=True):
            for model in models:
                queries = scenario.by_context_length[model].queries
                system = RankedSystem("baseline", model).key
                _curve(axes, [systems[system] for systems in queries.values()], system, models)
                axes.set_xticks(range(len(queries)), list(queries))
            baseline = scenario.by_session_length["long"].systems["baseline"].mrr
            axes.axhline(baseline, color=FIXED["baseline"], ls="--", lw=1.5)
            style = {"color": FIXED["baseline"], "fontsize": 8}
            write_near(axes, "Baseline Ranker, whole context", (0, baseline), (0, 4), **style)
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
        for row, scenario in enumerate(reversed(scenarios.values())):
            left = 0.0
            for key, share in scenario.session_lengths.items():
                assert share is not None, "there are test cases"
                axes.barh(row, share, left=left, color=shades[key], height=0.62)
                if share > 0.06:
                    ink = "white" if key == "long" else INK
                    text = f"{share:.0%}"
                    axes.text(left + share / 2, row, text, ha="center", va="center", color=ink)
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
    system = RankedSystem("baseline", models[0]).key
    with svg_plot(path, 3.2 * len(scenarios) + 0.6, 3.4, len(scenarios)) as all_axes:
        for axes, (name, scenario) in zip(all_axes, scenarios.items(), strict=True):
            shares = scenario.rankers[system].importances
            best = sorted(shares, key=lambda name: shares[name])[-8:]
            shades = [colour(name, models) if ":" in name else FIXED["baseline"] for name in best]
            axes.barh(range(len(best)), [shares[name] for name in best], color=shades, height=0.65)
            axes.set_yticks(range(len(best)), [name.replace("_", " ") for name in best])
            axes.tick_params(axis="y", labelsize=8)
            axes.set_title(SCENARIOS[name].title)
            axes.set_xlabel("share of the gain")

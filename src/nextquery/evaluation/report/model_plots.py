"""The report's plots of generation, gates, boundaries and vectors, as SVG.

Knows results; draws with the style of `plot_style.py`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes

from nextquery.evaluation.probes.gates import GateComparison, GateExample
from nextquery.evaluation.probes.projections import ProjectedText
from nextquery.evaluation.report.plot_style import FAINT, INK, colour, label, svg_plot
from nextquery.evaluation.results import ExperimentResults

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
            for place, name in enumerate(names):
                quality = systems[name][key]
                shade = colour(name, models)
                axes.plot([0, quality.hit_20], [place] * 2, color=shade, lw=6, alpha=0.25)
                axes.plot([0, quality.hit_5], [place] * 2, color=shade, lw=6, alpha=0.5)
                axes.plot([0, quality.hit_1], [place] * 2, color=shade, lw=6)
                axes.text(quality.hit_20, place, f"  {quality.hit_20:.1%}", va="center")
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
        for place, (name, gates) in enumerate(reversed(models.items())):
            shade = colour(name, results.systems.models)
            own, noisy = gates.own_query, gates.noisy_query
            axes.plot([own, noisy], [place, place], color=FAINT, lw=2, zorder=1)
            axes.plot(own, place, "o", color=shade, ms=9)
            axes.plot(noisy, place, "o", markerfacecolor="white", markeredgecolor=shade, ms=9)
            sides = ((own, "own query", own >= noisy), (noisy, "noise", noisy > own))
            for value, text, right in sides:
                axes.annotate(
                    f"{text} {value:.3f}",
                    (value, place),
                    xytext=(9 if right else -9, 0),
                    textcoords="offset points",
                    va="center",
                    ha="left" if right else "right",
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
        for place, value in enumerate(values):
            axes.text(value, place, f" {value:.3f}", va="center")
        axes.set_yticks(range(len(names)), names)
        axes.margins(x=0.12)
        axes.set_xlabel("F1 of the boundaries found")


def draw_projection(points: Sequence[ProjectedText], path: Path) -> None:
    """Texts on a plane; a label is written where no other stands yet."""
    places = np.array([[point.x, point.y] for point in points])
    spread = np.ptp(places, axis=0)
    places = (places - places.min(axis=0)) / np.where(spread > 0, spread, 1.0)
    shades = colormaps["tab10"]
    with svg_plot(path, 9.6, 6.4) as (axes,):
        for point, place in zip(points, places, strict=True):
            axes.plot(*place, "o", ms=3.5, color=shades(point.group % 10), alpha=0.7)
        _write_labels(axes, points, places)
        axes.set_xlim(-0.03, 1.12)
        axes.set_axis_off()


def _write_labels(axes: Axes, points: Sequence[ProjectedText], places: Any) -> None:
    """Label the points in their order, most frequent first, leaving out what would overlap."""
    taken: list[tuple[float, float, float, float]] = []
    shades = colormaps["tab10"]
    for point, (x, y) in zip(points, places, strict=True):
        text = point.text if len(point.text) <= 26 else point.text[:25] + "…"
        box = (x, y, x + _LETTER_WIDTH * len(text) + 0.01, y + _LABEL_HEIGHT)
        if any(_overlap(box, other) for other in taken):
            continue
        taken.append(box)
        axes.annotate(
            text,
            (x, y),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8.5,
            va="center",
            color=_darker(shades(point.group % 10)),
        )


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _darker(shade: tuple[float, float, float, float]) -> Any:
    ink = np.array([int(INK[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return tuple(0.55 * np.array(shade[:3]) + 0.45 * ink)

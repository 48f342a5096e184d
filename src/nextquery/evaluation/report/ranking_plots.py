"""The report's figures about ranking, drawn from its figures alone, as SVG.

Knows `results.json` and how a figure should look: one message each, the same colour for the same
system everywhere. Knows nothing of how a number came about.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nextquery.evaluation.paper import TITLES

Results = Mapping[str, Any]

INK, FAINT, PAPER_COLOUR = "#1f2933", "#9aa5b1", "#b8a15a"
_MODEL_COLOURS = ("#c8403f", "#e08a1e", "#7b4fa3", "#2a8c6a")
_FIXED = {"adj": "#8a94a0", "baseline": "#35618f"}

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
def drawn(path: Path, width: float, height: float, columns: int = 1) -> Iterator[list[Axes]]:
    """Axes beside each other that become the SVG file `path`."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield list(figure.subplots(1, columns, squeeze=False)[0])
        figure.savefig(path, format="svg", metadata={"Date": None}, transparent=True)


def label(system: str) -> str:
    """A system's name as a person writes it."""
    fixed = {"adj": "ADJ", "baseline": "Baseline Ranker", "popularity": "Popularity"}
    if system in fixed:
        return fixed[system]
    if system.startswith("baseline+"):
        return f"+ {label(system.removeprefix('baseline+'))}"
    name, _, form = system.partition(":")
    forms = {
        "sum": " (sum only)",
        "per_word": " per word",
        "lift": " lift",
        "share": " share",
        "": "",
    }
    return name.upper() + forms.get(form, f":{form}")


def colour(system: str, models: Sequence[str]) -> str:
    """The colour of a system, the same in every figure."""
    model = system.removeprefix("baseline+").partition(":")[0]
    if model in models:
        return _MODEL_COLOURS[list(models).index(model) % len(_MODEL_COLOURS)]
    return _FIXED.get(system, FAINT)


def main_systems(results: Results) -> list[str]:
    """The systems of the paper's tables."""
    models = results["systems"]["models"]
    return ["adj", "baseline", *(f"baseline+{model}" for model in models)]


def reported(results: Results) -> dict[str, Any]:
    """The scenarios that have figures."""
    return {name: found for name, found in results["scenarios"].items() if found["systems"]}


def draw_scenarios(results: Results, path: Path) -> None:
    """MRR with its interval for the paper's systems, a panel a scenario."""
    scenarios = reported(results)
    systems = main_systems(results)[::-1]
    models = results["systems"]["models"]
    with drawn(path, 3.1 * len(scenarios) + 0.8, 0.9 + 0.42 * len(systems), len(scenarios)) as all_:
        for number, (axes, (name, found)) in enumerate(zip(all_, scenarios.items(), strict=True)):
            for place, system in enumerate(systems):
                figures = found["systems"][system]
                low, high = figures["mrr_low"], figures["mrr_high"]
                shade = colour(system, models)
                axes.plot([low, high], [place, place], color=shade, lw=5, alpha=0.3)
                axes.plot(figures["mrr"], place, "o", color=shade, ms=8)
                axes.annotate(
                    f"{figures['mrr']:.3f}",
                    (figures["mrr"], place),
                    xytext=(0, 8),
                    textcoords="offset points",
                    ha="center",
                    fontsize=9,
                )
            axes.set_yticks(range(len(systems)), [label(system) for system in systems])
            axes.set_ylim(-0.5, len(systems) - 0.3)
            axes.set_title(TITLES[name])
            axes.set_xlabel("MRR, 95% interval")
            axes.grid(axis="x", color=FAINT, alpha=0.3)
            if number:
                axes.set_yticklabels([])


def draw_session_lengths(results: Results, path: Path) -> None:
    """MRR of the paper's systems in short, medium and long sessions, a panel a scenario."""
    scenarios = reported(results)
    models = results["systems"]["models"]
    with drawn(path, 3.4 * len(scenarios) + 0.4, 3.0, len(scenarios)) as all_axes:
        for axes, (name, found) in zip(all_axes, scenarios.items(), strict=True):
            lengths = found["by_session_length"]
            usable = [key for key in lengths if "systems" in lengths[key]]
            for system in main_systems(results):
                _curve(axes, [lengths[key]["systems"][system] for key in usable], system, models)
            labels = [f"{key}\n({lengths[key]['cases']:,})" for key in usable]
            axes.set_xticks(range(len(usable)), labels)
            axes.set_xlim(-0.4, len(usable) - 0.6)
            axes.set_title(TITLES[name])
            axes.grid(axis="y", color=FAINT, alpha=0.3)
        all_axes[0].set_ylabel("MRR")
        all_axes[-1].legend(frameon=False, fontsize=8, loc="best")


def _curve(
    axes: Axes, figures: Sequence[Mapping[str, float]], system: str, models: Sequence[str]
) -> None:
    shade = colour(system, models)
    places = range(len(figures))
    axes.plot(
        places, [each["mrr"] for each in figures], "o-", color=shade, label=label(system), lw=2
    )
    lows, highs = ([each[key] for each in figures] for key in ("mrr_low", "mrr_high"))
    axes.fill_between(places, lows, highs, color=shade, alpha=0.12, lw=0)


def draw_context_lengths(results: Results, path: Path) -> bool:
    """MRR on long sessions by how many queries the model sees; False if there is nothing."""
    scenarios = {
        name: found
        for name, found in reported(results).items()
        if any("queries" in each for each in found["by_context_length"].values())
    }
    if not scenarios:
        return False
    models = results["systems"]["models"]
    with drawn(path, 3.4 * len(scenarios) + 0.4, 3.0, len(scenarios)) as all_axes:
        for axes, (name, found) in zip(all_axes, scenarios.items(), strict=True):
            for model in models:
                queries = found["by_context_length"][model]["queries"]
                system = f"baseline+{model}"
                _curve(axes, [each[system] for each in queries.values()], system, models)
                axes.set_xticks(range(len(queries)), list(queries))
            baseline = found["by_session_length"]["long"]["systems"]["baseline"]["mrr"]
            axes.axhline(baseline, color=_FIXED["baseline"], ls="--", lw=1.5)
            axes.annotate(
                "Baseline Ranker, whole context",
                (0, baseline),
                xytext=(0, 4),
                textcoords="offset points",
                color=_FIXED["baseline"],
                fontsize=8,
            )
            axes.set_title(TITLES[name])
            axes.set_xlabel("queries that the model sees")
            axes.grid(axis="y", color=FAINT, alpha=0.3)
        all_axes[0].set_ylabel("MRR, long sessions")
        all_axes[-1].legend(frameon=False, fontsize=8, loc="lower right")
    return True


def draw_length_shares(results: Results, path: Path) -> None:
    """How many test sessions of each scenario are short, medium and long (Figure 4)."""
    scenarios = {n: f for n, f in results["scenarios"].items() if f["cases"]["test"]}
    shades = {"short": "#c9d6e3", "medium": "#7fa3c7", "long": "#35618f"}
    with drawn(path, 6.4, 0.9 + 0.42 * len(scenarios)) as (axes,):
        for place, found in enumerate(reversed(scenarios.values())):
            left = 0.0
            for key, share in found["session_lengths"].items():
                axes.barh(place, share, left=left, color=shades[key], height=0.62)
                if share > 0.06:
                    ink = "white" if key == "long" else INK
                    text = f"{share:.0%}"
                    axes.text(left + share / 2, place, text, ha="center", va="center", color=ink)
                left += share
        names = [TITLES[name] for name in reversed(scenarios)]
        axes.set_yticks(range(len(names)), names)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        handles = [mpl.patches.Patch(color=shade) for shade in shades.values()]
        names = ["short (2 queries)", "medium (3-4)", "long (5 or more)"]
        axes.legend(handles, names, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def draw_importances(results: Results, path: Path) -> None:
    """Which features the rankers with a model's score rely on, a panel a scenario."""
    scenarios = reported(results)
    models = results["systems"]["models"]
    system = f"baseline+{models[0]}"
    with drawn(path, 3.2 * len(scenarios) + 0.6, 3.4, len(scenarios)) as all_axes:
        for axes, (name, found) in zip(all_axes, scenarios.items(), strict=True):
            shares = found["rankers"][system]["importances"]
            best = sorted(shares, key=lambda each: shares[each])[-8:]
            shades = [colour(each, models) if ":" in each else _FIXED["baseline"] for each in best]
            axes.barh(range(len(best)), [shares[each] for each in best], color=shades, height=0.65)
            axes.set_yticks(range(len(best)), [each.replace("_", " ") for each in best])
            axes.tick_params(axis="y", labelsize=8)
            axes.set_title(TITLES[name])
            axes.set_xlabel("share of the gain")

"""How the report's plots look: one style, and the same colour for the same system everywhere.

Knows names of systems and matplotlib; knows no results.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

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
    """Axes beside each other that become the SVG file `path`."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield list(figure.subplots(1, columns, squeeze=False)[0])
        figure.savefig(path, format="svg", metadata={"Date": None}, transparent=True)


def write_powers_plainly(axis: Axis) -> None:
    """Of a logarithmic axis: Matplotlib writes formulas, and no text is one in these plots."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter("")


def label(system: str) -> str:
    """A system's name as a person writes it."""
    fixed = {
        "adj": "ADJ",
        "baseline": "Baseline Ranker",
        "baseline_authors": "Authors' Baseline",
        "baseline_semantic": "Baseline with meaning",
        "baseline_earlier": "Baseline with earlier queries",
        "popularity": "Popularity",
    }
    if system in fixed:
        return fixed[system]
    if system.startswith("baseline_authors+"):
        return f"Authors' Baseline + {label(system.removeprefix('baseline_authors+'))}"
    if system.startswith("baseline_semantic+"):
        return f"Baseline with meaning + {label(system.removeprefix('baseline_semantic+'))}"
    if system.startswith("baseline_earlier+"):
        return f"Baseline with earlier queries + {label(system.removeprefix('baseline_earlier+'))}"
    if system.startswith("baseline+"):
        return f"+ {label(system.removeprefix('baseline+'))}"
    name, _, form = system.partition(":")
    forms = {
        "sum": " (sum only)",
        "per_word": " per word",
        "lift": " lift",
        "share": " share",
        "useful": " by usefulness, too",
        "earlier": " with earlier queries, if they help",
        "earlier_sum": " with earlier queries",
        "earlier_lift": " lift with earlier queries",
        "": "",
    }
    return name.upper() + forms.get(form, f":{form}")


def colour(system: str, models: Sequence[str]) -> str:
    """The colour of a system, the same in every plot."""
    model = system.partition("+")[2].partition(":")[0] or system.partition(":")[0]
    if model in models:
        return _MODEL_COLOURS[list(models).index(model) % len(_MODEL_COLOURS)]
    return FIXED.get(system, FAINT)

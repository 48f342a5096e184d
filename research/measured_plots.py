"""Plots of training and of the service, from the JSON files of docs/results.

`serving.json` has for 1 and 2 workers the points of `./scripts/bench serve`, section `offered`;
`training.json` has the curves of some runs, taken from the `metrics.jsonl` of their model folders.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from nextquery.errors import InputError
from nextquery.evaluation.report.plots import FAINT, INK, svg_plot
from research.tables import RESULTS, ROOT, read

FIGURES = ROOT / "docs" / "figures"
FIGURE_NAMES = ("serving_latency.svg", "training_curves.svg")
"""Shown on docs/results/speed.md."""
COLOURS = {"1": "#35618f", "2": "#c8403f"}
_MOST_POINTS = 60

Document = Mapping[str, Any]


def keep_serving(bench: Path, note: str, results: Path = RESULTS) -> None:
    """Store the points of a run of `./scripts/bench serve --json`."""
    result = json.loads(bench.read_text("utf-8"))
    offered = result.get("offered", {})
    if "1" not in offered or "2" not in offered:
        raise InputError(f"{bench}: has no section `offered` with 1 and 2 workers")
    document = {
        "made_by": "NEXTQUERY_BENCH_SERVE=offered ./scripts/bench serve --json",
        "note": note,
        "quick": result["quick"],
        "machine": result["machine"],
        "workers": {number: _points(points) for number, points in offered.items()},
    }
    _write(results / "serving.json", document)


def _points(measured: Document) -> list[dict[str, float]]:
    return [
        {
            "offered": round(point["offered_per_s"], 1),
            "answered": round(point["answered_per_s"], 1),
            "p50_ms": round(point["p50_ms"], 1),
            "p99_ms": round(point["p99_ms"], 1),
        }
        for point in measured["points"]
    ]


def keep_training(models: Mapping[str, Path], results: Path = RESULTS) -> None:
    """Store the curves of some trained models in addition to those stored before.

    Thinned out to what a plot can show.
    """
    kept = results / "training.json"
    runs = json.loads(kept.read_text("utf-8"))["runs"] if kept.exists() else {}
    for name, folder in models.items():
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        losses = [line for line in lines if "loss" in line]
        runs[name] = {
            "loss": [[line["step"], round(line["loss"], 3)] for line in _thinned(losses)],
            "validation": [
                [line["step"], round(line["validation_nll"], 4)]
                for line in lines
                if "validation_nll" in line
            ],
        }
    _write(kept, {"unit": "nats per word", "runs": runs})


def _thinned(lines: list[Any]) -> list[Any]:
    step = max(1, -(-len(lines) // _MOST_POINTS))
    return lines[::step]


def _write(path: Path, document: Document) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def draw_all(folder: Path = FIGURES) -> None:
    """Both figures."""
    serving, training = read("serving"), read("training")["runs"]
    with svg_plot(folder / "serving_latency.svg", 9.0, 3.4, 2) as axes:
        for number, points in serving["workers"].items():
            _latency(axes[0], number, points)
            _answered(axes[1], number, points)
        _finish(axes, serving["workers"])
    with svg_plot(folder / "training_curves.svg", 9.0, 3.2, len(training)) as axes:
        for axis, (name, run) in zip(axes, training.items(), strict=True):
            _curve(axis, name, run)


def _latency(axis: Axes, workers: str, points: list[Document]) -> None:
    offered = [point["offered"] for point in points]
    named = f"{workers} worker{'s' if workers != '1' else ''}"
    for key, style in (("p50_ms", "-"), ("p99_ms", "--")):
        values = [point[key] for point in points]
        text = f"{named}, {key.removesuffix('_ms')}"
        axis.plot(offered, values, style, color=COLOURS[workers], marker=".", label=text)


def _answered(axis: Axes, workers: str, points: list[Document]) -> None:
    offered = [point["offered"] for point in points]
    answered = [point["answered"] for point in points]
    axis.plot(offered, answered, color=COLOURS[workers], marker=".")


def _finish(axes: list[Axes], workers: Document) -> None:
    most = max(point["offered"] for points in workers.values() for point in points)
    axes[0].set_yscale("log")
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter("{x:g}")
    axes[0].yaxis.set_minor_formatter("")
    axes[0].set_title("Latency of what is answered")
    axes[0].set_ylabel("milliseconds")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].plot([0, most], [0, most], color=FAINT, linewidth=1, linestyle=":")
    axes[1].text(most, most, "all ", color=INK, ha="right", va="top", fontsize=8)
    axes[1].set_title("Answered in time")
    axes[1].set_ylabel("answers per second")
    for axis in axes:
        axis.set_xlim(left=0)
        axis.set_xlabel("requests offered per second")


def _curve(axis: Axes, name: str, run: Document) -> None:
    steps, losses = zip(*run["loss"], strict=True)
    axis.plot(steps, losses, color=FAINT, linewidth=1, label="training")
    steps, losses = zip(*run["validation"], strict=True)
    axis.plot(steps, losses, color="#c8403f", marker=".", label="validation")
    axis.set_title(name)
    axis.set_xlabel("steps")
    axis.set_ylabel("nats per word")
    axis.legend(frameon=False, fontsize=8)

"""How much log does it take: learning curves on synthetic logs, with copying and without."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from research.commands import changed, make, report_of, save
from research.tables import RESULTS, read

FEATURE = "baseline+hred:sum"

CURVES: Mapping[str, tuple[list[str], Mapping[str, str]]] = {
    "copying": (
        ["--sessions", "30000", "--seed", "1"],
        {
            "epochs": "3",
            "validate_every": "300",
            "validation_sessions": "500",
            "patience": "2",
        },
    ),
    "plain": (
        ["--sessions", "100000", "--seed", "1"],
        {
            "copy": "false",
            "embedding_size": "64",
            "query_size": "128",
            "session_size": "192",
            "epochs": "4",
            "batch_words": "1024",
            "loss": '"sampled"',
            "head_words": "1000",
            "optimiser": '"rmsprop"',
            "rate": "0.001",
            "validate_every": "400",
            "validation_sessions": "800",
            "patience": "3",
        },
    ),
}
"""The log of each curve, and the keys in which its config differs from `tiny`."""

LAST_DAYS = ("--split-at", "2006-04-30T08:53:44,2006-05-14T05:25:37,2006-05-28T12:00:00")
"""A test part of some 2,400 sessions of the larger log."""


def curves(work: Path, names: Sequence[str] = tuple(CURVES)) -> None:
    """Measure the named curves; the others stay as they are in docs/results."""
    for name in names:
        save("log_sizes", {**committed(), name: _curve(work / name, name)})


def committed() -> dict[str, Any]:
    """The curves in docs/results."""
    return dict(read("log_sizes")) if (RESULTS / "log_sizes.json").is_file() else {}


def _curve(work: Path, name: str) -> Any:
    options, values = CURVES[name]
    work.mkdir(parents=True, exist_ok=True)
    log, data, config, model = (work / name for name in ("log.tsv", "data", "curve.toml", "hred"))
    make(log, ["synth", str(log), *options])
    split = LAST_DAYS if name == "plain" else ()
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling", *split])
    config.write_text(changed("tiny", values))
    # It only has to be there: it is trained again at every size.
    short = ["--config", str(config), "--set", "train.epochs=1"]
    make(model, ["train", str(data), "--out", str(model), *short])
    words = [str(data), f"--model=hred={model}", "--visitors", "known", "--scenario", "long_tail"]
    words += ["--seeds", "2", "--ranker-cases", "1000", "--generation-contexts", "150"]
    words += ["--completion-contexts", "10", f"--learning-curve-config={config}"]
    return summarise_curve(report_of(work / "report", words)["learning_curve"])


def summarise_curve(curve: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures of each size that the page shows."""
    kept = ("relative", "difference", "difference_low", "difference_high", "p", "p_by_user")
    sizes = []
    for point in curve["points"]:
        gains = {
            pair["a"]: {key: float(f"{pair[key]:.4g}") for key in kept}
            for pair in point["comparisons"]
            if pair["b"] == "baseline"
        }
        sizes.append(
            {
                "sessions": point["sessions"],
                "users": point["users"],
                "cases": next(iter(point["ranking"].values()))["cases"],
                "mrr": {name: round(item["mrr"], 4) for name, item in point["ranking"].items()},
                "gains": gains,
                "alone": {
                    name: {key: _rounded(value) for key, value in item.items()}
                    for name, item in point["alone"].items()
                },
            }
        )
    return sizes


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")

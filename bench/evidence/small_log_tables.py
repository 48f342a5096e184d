"""The tables of docs/experiments.md about better models on small logs."""

from collections.abc import Mapping
from typing import Any

from evidence.position_losses import CONTEXTS, TARGETS
from evidence.tables import TITLES, gain, interval, mrr_text, read, table

Document = Mapping[str, Any]
LOGS = {"made_up": "made up, `tiny`", "aol": "AOL, `small`"}
SYSTEMS = {"one": "one model (seed 4)", "ensemble": "ensemble of three", "student": "student"}


def ngrams() -> str:
    """Perplexities without and with character n-grams: by epoch, by target, by context."""
    found = read("character_ngrams")
    without, with_ngrams = found["without"], found["with"]
    rows = [
        _row(f"after epoch {epoch}", without["symbols"], before, after)
        for epoch, (before, after) in enumerate(
            zip(without["epochs"], with_ngrams["epochs"], strict=True), start=1
        )
    ]
    for key, names, title in (
        ("by_target", TARGETS, "to predict"),
        ("by_context", CONTEXTS, "earlier queries"),
    ):
        for name in names:
            if name in without[key]:
                one, other = without[key][name], with_ngrams[key][name]
                facts = one["symbols"], one["perplexity"], other["perplexity"]
                rows.append(_row(f"{title}: {name}", *facts))
    heads = ["validation symbols", "number", "without n-grams", "with n-grams", "change"]
    return table(heads, rows)


def _row(title: str, symbols: int, before: float, after: float) -> list[str]:
    change = f"{after / before - 1:+.1%}"
    return [title, f"{symbols:,}", f"{before:.2f}", f"{after:.2f}", change]


def perplexities() -> str:
    """Of each seed, of the ensemble of the first three, and of the student."""
    found = read("seeds")
    names = next(iter(found.values()))["perplexity"]
    rows = [
        [LOGS[log], *(f"{each['perplexity'][name]:.2f}" for name in names)]
        for log, each in found.items()
    ]
    return table(["log", *names], rows)


def rankers() -> str:
    """One model, the ensemble and the student: alone and as features of the Baseline Ranker."""
    heads = ["scenario", "cases", "Baseline", "model", "alone", "+ HRED", "its gain over Baseline"]
    heads += ["95% interval"]
    rows = []
    for name, found in read("seeds")["made_up"]["ranked"]["scenarios"].items():
        mrr = found["mrr"]
        for place, (system, title) in enumerate(SYSTEMS.items()):
            ranker = f"baseline+{system}"
            over = found["gains"][f"{ranker} over baseline"]
            first = [TITLES[name], f"{found['cases']['test']:,}", mrr_text(mrr["baseline"])]
            values = [mrr_text(mrr[system]), mrr_text(mrr[ranker]), gain(over), interval(over)]
            rows.append([*(first if place == 0 else [""] * 3), title, *values])
    return table(heads, rows)

"""The tables of docs/results/experiments.md about better models on small logs."""

from collections.abc import Mapping
from typing import Any

from research.position_losses import CONTEXTS, TARGETS
from research.tables import TITLES, gain, interval, mrr_text, read, table

Document = Mapping[str, Any]
LOGS = {"made_up": "made up, `tiny`", "aol": "AOL, `small`"}
NAMES = {
    "ensemble": "ensemble of 1 to 3",
    "student-50": "student, teachers count .5",
    "student-90": "student, teachers count .9",
}
"""Of systems that are not called by their own names."""


def ngrams() -> str:
    """Perplexities without and with character n-grams: by epoch, by target, by context."""
    found = read("character_ngrams")
    without, with_ngrams = found["without"], found["with"]
    rows = [
        _row(f"seed {seed}, epoch {epoch}", without["symbols"], before, after)
        for seed, curves in enumerate(
            zip(without["epochs"], with_ngrams["epochs"], strict=True), start=1
        )
        for epoch, (before, after) in enumerate(zip(*curves, strict=True), start=1)
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
    """Of each seed, of the ensemble of the first three, and of the students."""
    found = read("seeds")
    names = max((each["perplexity"] for each in found.values()), key=len)
    rows = []
    for log, each in found.items():
        values = (each["perplexity"].get(name) for name in names)
        rows.append([LOGS[log], *("" if value is None else f"{value:.2f}" for value in values)])
    return table(["log", *map(_name, names)], rows)


def rankers() -> str:
    """Each seed, the ensemble and the students: alone and as features of the Baseline Ranker."""
    heads = ["scenario", "cases", "Baseline", "model", "alone", "+ HRED, sum only", "+ HRED"]
    heads += ["its gain over Baseline", "95% interval"]
    rows = []
    found = read("seeds")["made_up"]
    for scenario, each in found["ranked"]["scenarios"].items():
        mrr = each["mrr"]
        first = [TITLES[scenario], f"{each['cases']['test']:,}", mrr_text(mrr["baseline"])]
        for system in found["perplexity"]:
            ranker = f"baseline+{system}"
            over = each["gains"][f"{ranker} over baseline"]
            values = [mrr[system], mrr[f"{ranker}:sum"], mrr[ranker]]
            rows.append([*first, _name(system), *map(mrr_text, values), gain(over), interval(over)])
            first = ["", "", ""]
    return table(heads, rows)


def pairs() -> str:
    """The ensemble against each of its members, and students against the model of their seed."""
    found = read("seeds")["made_up"]["pairs"]
    heads = ["alone", *(TITLES[scenario] for scenario in found)]
    names = next(iter(found.values()))
    rows = []
    for pair in names:
        a, b = map(_name, pair.split(" over "))
        rows.append([f"{a} over {b}", *(gain(each[pair]) for each in found.values())])
    return table(heads, rows)


def _name(system: str) -> str:
    """A system as the page calls it.

    >>> _name("seed-1"), _name("ensemble")
    ('seed 1', 'ensemble of 1 to 3')
    """
    return NAMES.get(system, system.replace("-", " "))

"""Two systems of an experiment compared case by case, from the TREC files of its report.

For pairs that the report itself does not compare: a model with another model.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.evaluation.comparison import bootstrap_interval, paired_t_test

Floats = NDArray[np.float64]


def compared(report: Path, scenario: str, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """By `a over b`: the relative gain of the mean reciprocal rank, its interval and p."""
    return {f"{a} over {b}": _gain(report, scenario, a, b) for a, b in pairs}


def _gain(report: Path, scenario: str, a: str, b: str) -> dict[str, float]:
    first, second = (reciprocal_ranks(report / "trec", scenario, name) for name in (a, b))
    low, high = bootstrap_interval(first - second)
    return {
        "relative": round(float(first.mean() / second.mean() - 1), 4),
        "difference": round(float((first - second).mean()), 4),
        "difference_low": round(low, 4),
        "difference_high": round(high, 4),
        "p": float(f"{paired_t_test(first, second):.2g}"),
    }


def reciprocal_ranks(folder: Path, scenario: str, system: str) -> Floats:
    """1 / rank of the true next query in each case, in the order of the qrels; 0 if not ranked."""
    wanted = {}
    for line in (folder / f"{scenario}.qrels").read_text().splitlines():
        case, _, candidate, relevant = line.split()
        if relevant == "1":
            wanted[case] = candidate
    ranks = dict.fromkeys(wanted, 0.0)
    for line in (folder / f"{scenario}.{system}.run").read_text().splitlines():
        case, _, candidate, rank, *_ = line.split()
        if wanted.get(case) == candidate:
            ranks[case] = 1 / int(rank)
    return np.array(list(ranks.values()))

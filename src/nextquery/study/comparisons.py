"""Whether one model is better than another, paired over queries. Pure computation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

RESAMPLES = 10_000


@dataclass(frozen=True)
class Comparison:
    """Two models paired over queries: the difference in gain and its corrected p-value."""

    a: str
    b: str
    difference: float
    p: float
    p_corrected: float


def compare(gains: Mapping[str, NDArray[np.float64]], seed: int) -> tuple[Comparison, ...]:
    """Every pair of models by a paired permutation test over queries, corrected after Holm."""
    pairs = list(combinations(gains, 2))
    values = [_p_value(gains[a] - gains[b], seed) for a, b in pairs]
    corrected = holm(values)
    return tuple(
        Comparison(a, b, float(np.mean(gains[a] - gains[b])) if len(gains[a]) else 0.0, p, q)
        for (a, b), p, q in zip(pairs, values, corrected, strict=True)
    )


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the given order."""
    order = np.argsort(values, kind="stable")
    scaled = [min(1.0, values[i] * (len(values) - rank)) for rank, i in enumerate(order)]
    corrected = [0.0] * len(values)
    for index, value in zip(order, np.maximum.accumulate(scaled), strict=True):
        corrected[index] = float(value)
    return corrected


def _p_value(differences: NDArray[np.float64], seed: int) -> float:
    if len(differences) < 2 or not differences.any():
        return 1.0
    test = stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(seed),
    )
    return float(test.pvalue)

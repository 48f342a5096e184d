"""How far assessors agree beyond chance. Pure functions of judgements; knows no files."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ratings = Sequence[Sequence[int]]
"""For each item the grades it got, in any order; items may have different numbers of grades."""


def fleiss_kappa(ratings: Ratings, categories: int = 3) -> float | None:
    """Fleiss' kappa for nominal grades `0..categories-1` (Fleiss 1971).

    kappa = (P - P_e) / (1 - P_e), with P the mean share of agreeing pairs of assessors per item and
    P_e the sum of squared category shares. Items with fewer than two grades are left out. None
    where it is undefined: nothing to compare, or only one category was ever used.
    """
    counts = _counts(ratings, categories)
    if not len(counts):
        return None
    totals = counts.sum(axis=1)
    agreeing = ((counts * (counts - 1)).sum(axis=1) / (totals * (totals - 1))).mean()
    expected = float(((counts.sum(axis=0) / counts.sum()) ** 2).sum())
    return None if expected == 1 else float((agreeing - expected) / (1 - expected))


def krippendorff_alpha(ratings: Ratings, categories: int = 3) -> float | None:
    """Krippendorff's alpha for ordinal grades `0..categories-1` (Krippendorff 2011).

    alpha = 1 - D_o / D_e over the coincidence matrix, with the ordinal difference
    (n_c/2 + n_between + n_k/2)^2 between grades c and k. None where it is undefined.
    """
    counts = _counts(ratings, categories)
    if not len(counts):
        return None
    totals = counts.sum(axis=1, keepdims=True)
    pairs = counts[:, :, None] * counts[:, None, :]  # (items, grade, grade)
    pairs -= counts[:, :, None] * np.eye(categories)
    coincidences = (pairs / (totals[:, :, None] - 1)).sum(axis=0)
    marginals = coincidences.sum(axis=1)
    difference = _ordinal_difference(marginals)
    expected = float((np.outer(marginals, marginals) * difference).sum())
    if expected == 0:
        return None
    observed = float((coincidences * difference).sum())
    return 1 - float(marginals.sum() - 1) * observed / expected


def _counts(ratings: Ratings, categories: int) -> NDArray[np.float64]:
    """How often each item got each grade: (items with two grades or more, categories)."""
    rows = [np.bincount(grades, minlength=categories) for grades in ratings if len(grades) > 1]
    return np.array(rows, dtype=np.float64).reshape(len(rows), categories)


def _ordinal_difference(marginals: NDArray[np.float64]) -> NDArray[np.float64]:
    middle = np.cumsum(marginals) - marginals / 2
    return np.square(middle[:, None] - middle[None, :])

"""Is a difference more than chance: the paper's paired t-test, and bootstrap intervals.

Knows arrays with one number per case, and whose case each is. The bootstrap draws whole cases with
replacement and is seeded, so that a report is the same every time.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from nextquery.ranking.cases import Floats

RESAMPLES = 2000
_BLOCK = 100


def paired_t_test(first: Floats, second: Floats) -> float:
    """The two-sided p-value of mean(first - second) = 0 over the same cases."""
    differences = first - second
    if len(differences) < 2 or np.all(differences == differences[0]):
        return 1.0 if not len(differences) or differences[0] == 0 else 0.0
    return float(stats.ttest_rel(first, second).pvalue)


def paired_t_test_by_user(first: Floats, second: Floats, users: Sequence[str]) -> float:
    """The same, with all cases of a user taken together: one person's cases are alike.

    The test is on each user's sum of differences, so that the mean over cases stays what is tested.

    >>> second = np.zeros(6)
    >>> first = np.array([0.5, 0.5, 0.5, 0.5, 0.5, -0.1])
    >>> round(paired_t_test(first, second), 3)
    0.01
    >>> round(paired_t_test_by_user(first, second, ["ann"] * 4 + ["bob", "cy"]), 3)
    0.329
    """
    _, places = np.unique(np.array(users), return_inverse=True)
    sums = np.bincount(places, weights=first - second).astype(np.float64)
    return paired_t_test(sums, np.zeros(len(sums)))


def bootstrap_interval(values: Floats, share: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """The interval that holds the mean of `share` of the resamples of `values`."""
    if not len(values):
        return float("nan"), float("nan")
    drawn = _times_drawn(len(values), seed)
    blocks = (drawn[start : start + _BLOCK] for start in range(0, RESAMPLES, _BLOCK))
    # Not a product of matrices, whose rounding may depend on the number of threads.
    sums = [np.einsum("ij,j->i", block.astype(np.float64), values) for block in blocks]
    tail = (1.0 - share) / 2.0
    low, high = np.quantile(np.concatenate(sums) / len(values), [tail, 1.0 - tail])
    return float(low), float(high)


@lru_cache(maxsize=1)
def _times_drawn(cases: int, seed: int) -> NDArray[np.uint8]:
    """How often each case is in each resample: the same for everything measured on the cases.

    A byte is enough: among more than 255 cases none is drawn 256 times, where one is expected.
    """
    generator = np.random.default_rng(seed)
    rows = np.arange(_BLOCK)[:, None] * cases
    blocks = []
    for _ in range(RESAMPLES // _BLOCK):
        places = generator.integers(0, cases, size=(_BLOCK, cases)) + rows
        counts = np.bincount(places.ravel(), minlength=_BLOCK * cases)
        blocks.append(counts.astype(np.uint8).reshape(_BLOCK, cases))
    return np.concatenate(blocks)

"""Is a difference more than chance: the paper's paired t-test, and bootstrap intervals.

Knows arrays with one number per case, and whose case each is. The bootstrap draws whole cases with
replacement and is seeded, so that a report is the same every time.
"""

from collections.abc import Sequence

import numpy as np
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
    generator = np.random.default_rng(seed)
    means = [
        values[generator.integers(0, len(values), size=(_BLOCK, len(values)))].mean(axis=1)
        for _ in range(RESAMPLES // _BLOCK)
    ]
    tail = (1.0 - share) / 2.0
    low, high = np.quantile(np.concatenate(means), [tail, 1.0 - tail])
    return float(low), float(high)

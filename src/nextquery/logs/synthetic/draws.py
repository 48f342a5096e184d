"""Random integers that are the same on every machine and with every NumPy.

Only the raw bits of PCG64, which NumPy keeps stable, and integer arithmetic: no floating point, so
no library of elementary functions can tip a draw.
"""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Draws:
    """A stream of random integers that depends on the seed alone."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def below(self, limit: int, size: int) -> Integers:
        """Uniform integers from 0 to `limit` - 1."""
        raw = np.asarray(self._bits.random_raw(size), dtype=np.uint64)
        return (raw % np.uint64(limit)).astype(np.int64)

    def weighted(self, weights: Integers, size: int) -> Integers:
        """Indices drawn in proportion to integer weights."""
        bounds = np.cumsum(weights)
        return np.searchsorted(bounds, self.below(int(bounds[-1]), size), side="right")

    def weighted_rows(self, weights: Integers, rows: Integers) -> Integers:
        """For each of `rows`, a column of that row of `weights` (every row with the same sum)."""
        bounds = np.cumsum(weights, axis=1)  # (kinds, columns)
        drawn = self.below(int(bounds[0, -1]), len(rows))
        columns: Integers = (bounds[rows] <= drawn[:, None]).sum(axis=1)
        return columns

    def chance(self, percent: int, size: int) -> Flags:
        """True in `percent` of a hundred cases."""
        return self.below(100, size) < percent

    def permutation(self, size: int) -> Integers:
        """A random order of `size` things."""
        return np.argsort(self.below(2**62, size), kind="stable")


def zipf(count: int, flatness: int) -> Integers:
    """Integer weights that fall with the rank; a larger `flatness` makes them fall more slowly."""
    return 10_000_000 // (np.arange(count, dtype=np.int64) + flatness)

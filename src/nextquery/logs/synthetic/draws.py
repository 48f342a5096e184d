"""Random integers that are the same on every machine and with every NumPy.

Only the raw bits of PCG64, which NumPy keeps stable, and integer arithmetic: no floating point, so
no library of elementary functions can tip a draw.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_SMALL = 1 << 10
"""Totals up to this have a table of all their numbers."""
_FEW = 24
"""Up to so many bounds are compared one by one."""


class Draws:
    """A stream of random integers that depends on the seed alone.

    Of a stream every part can be drawn for itself: a `window` takes the same places of each draw.

    >>> whole, part = Draws(1).below(100, 6), Draws(1).window(2, 4, 6).below(100, 6)
    >>> bool((whole[2:4] == part).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._position = 0
        self._bits = np.random.PCG64(seed)
        self._window: tuple[int, int, int] | None = None

    def window(self, first: int, last: int, size: int) -> "Draws":
        """Draws from here on, each of `size` numbers of which only `first` to `last` are made."""
        part = Draws(self._seed)
        part._window = first, last, size
        part.skip(self._position + first)
        return part

    def skip(self, count: int) -> None:
        """Leave out `count` numbers."""
        self._bits.advance(count)
        self._position += count

    def below(self, limit: int, size: int, at: Integers | None = None) -> Integers:
        """Uniform integers from 0 to `limit` - 1; only those `at` these places, if given."""
        raw = self._raw(size)
        if at is not None:
            raw = raw[at]
        divisor = np.uint64(limit)
        return (raw - raw // divisor * divisor).view(np.int64)  # quicker than a remainder

    def _raw(self, size: int) -> npt.NDArray[np.uint64]:
        first, last, total = self._window or (0, size, size)
        assert size == total, "a window is of draws of one size"
        raw = np.asarray(self._bits.random_raw(last - first), dtype=np.uint64)
        self._position += last - first
        self.skip(size - (last - first))
        return raw

    def weighted(self, weights: Integers, size: int, at: Integers | None = None) -> Integers:
        """Indices drawn in proportion to integer weights."""
        wheel = _wheel(tuple(weights.tolist())) if len(weights) < 10_000 else Wheel(weights)
        return wheel.find(self.below(wheel.total, size, at))

    def weighted_rows(
        self, weights: Integers, rows: Integers, size: int, at: Integers | None = None
    ) -> Integers:
        """For each of `rows`, a column of that row of `weights` (every row with the same sum)."""
        columns = np.arange(weights.shape[1])
        table = np.stack([np.repeat(columns, row) for row in weights])  # (kinds, total)
        found: Integers = table[rows, self.below(table.shape[1], size, at)]
        return found

    def chance(self, percent: int, size: int, at: Integers | None = None) -> Flags:
        """True in `percent` of a hundred cases."""
        return self.below(100, size, at) < percent

    def permutation(self, size: int) -> Integers:
        """A random order of `size` things."""
        return np.argsort(self.below(2**62, size), kind="stable")


class Wheel:
    """Finds in which of many shares, laid side by side, a number falls."""

    def __init__(self, weights: Integers) -> None:
        self._bounds = np.cumsum(weights)
        self.total = int(self._bounds[-1])
        # A guide: the share in which each of evenly spaced numbers falls.
        cells = 2 * len(weights) if self.total > _SMALL else self.total
        self._shift = max(0, (self.total // max(cells, 1)).bit_length() - 1)
        starts = np.arange((self.total >> self._shift) + 2) << self._shift
        self._guide = np.searchsorted(self._bounds, starts, side="right")
        self._most = int(np.diff(self._guide).max(initial=0))

    def find(self, numbers: Integers) -> Integers:
        """The index of the share of each number below `total`."""
        if len(self._bounds) <= _FEW and self.total > _SMALL:
            found = np.zeros(len(numbers), dtype=np.int64)
            for bound in self._bounds[:-1]:
                found += numbers >= bound
            return found
        found = np.asarray(self._guide[numbers >> self._shift], dtype=np.int64)
        if self._shift:
            for _ in range(self._most):
                found += self._bounds[found] <= numbers
        return found


@lru_cache(maxsize=256)
def _wheel(weights: tuple[int, ...]) -> Wheel:
    return Wheel(np.array(weights, dtype=np.int64))


def zipf(count: int, flatness: int) -> Integers:
    """Integer weights that fall with the rank; a larger `flatness` makes them fall more slowly."""
    return 10_000_000 // (np.arange(count, dtype=np.int64) + flatness)

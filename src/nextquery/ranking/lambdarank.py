"""The gradients of LambdaRank (Burges 2010) for cases with one true next query each.

LightGBM's own `lambdarank` takes half of the time of a tree: it looks at all pairs of candidates,
case by case. Here only the pairs with the true next query count, and whole blocks of cases go
through NumPy at once. The arithmetic is LightGBM's to the last bit (its table of the logistic
function, its 32-bit sums in the order of the ranks), so that the trees are the same; a test
compares them. With the compiled kernels (`native_lambdarank.py`) it takes half the time again.
"""

from functools import cache, cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nextquery.ranking.cases import CaseSet, Floats, Integers
from nextquery.ranking.native_lambdarank import NativeLambdaRank, native_function

Gradients = NDArray[np.float32]
Number = TypeVar("Number", np.float32, np.float64)

_BINS = 1024 * 1024
_REACH = 25.0
"""The logistic function is read from a table of so many differences, from -25 to 25."""
_TRUNCATION = 30
"""Pairs of which neither candidate is among so many best do not count."""
_SMALLEST = float(np.float32(0.01))
_WIDEST = 65_535
_BLOCK = 4096
"""Cases at a time: more do not stay in a core's cache."""


class LambdaRank:
    """First and second derivatives of the loss by the candidates' scores; one thread at a time."""

    def __init__(
        self, cases: CaseSet, weights: Floats | None = None, *, native: bool = True
    ) -> None:
        self._cases = cases
        self._weights = None if weights is None else weights[cases.owners].astype(np.float32)
        width = int(cases.sizes.max(initial=1))
        self._discounts = 1.0 / np.log2(2.0 + np.arange(width))
        self._places = cases.targets - cases.starts
        self._even = bool((cases.sizes == width).all())
        kernel = native_function() if native and width <= _WIDEST else None
        self._native = kernel and NativeLambdaRank(kernel, cases, self._discounts, _table())

    def __call__(self, scores: Floats) -> tuple[Gradients, Gradients]:
        """Both derivatives, flat, given the scores of all candidates, flat."""
        if self._native:
            first, second = self._native(scores, _REACH, _SMALLEST, _TRUNCATION)
            return self._weighted(first), self._weighted(second)
        rows = self._rows(scores)  # (cases, candidates)
        first, second = np.empty((2, *rows.shape), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            found = self._block(np.ascontiguousarray(rows[block].T), self._places[block])
            first[block], second[block] = (each.T for each in found)
        return self._flat(first), self._flat(second)

    @cached_property
    def _present(self) -> NDArray[np.bool_]:
        """Which places of the rows hold a candidate."""
        found: NDArray[np.bool_] = np.arange(len(self._discounts)) < self._cases.sizes[:, None]
        return found

    def _rows(self, scores: Floats) -> Floats:
        """One row per case, filled up with candidates that are worse than any."""
        shape = (len(self._cases), len(self._discounts))
        if self._even:
            return scores.reshape(shape)
        rows = np.full(shape, -np.inf)
        rows[self._present] = scores
        return rows

    def _flat(self, rows: Gradients) -> Gradients:
        return self._weighted(rows.ravel() if self._even else rows[self._present])

    def _weighted(self, flat: Gradients) -> Gradients:
        return flat if self._weights is None else flat * self._weights

    def _block(self, scores: Floats, places: Integers) -> tuple[Gradients, Gradients]:
        """Of some cases: all arrays are (candidates, cases), `places` those of the true ones."""
        cases = np.arange(scores.shape[1])
        ranks = _ranks(scores)
        differences = scores[places, cases] - scores
        sizes = self._pair_sizes(scores, np.abs(differences), ranks, ranks[places, cases])
        chances = self._logistic(differences)
        second = (1.0 - chances) * chances * sizes
        first = chances * sizes
        lambdas, hessians = first.astype(np.float32), second.astype(np.float32)
        order = ranks.astype(np.int64) * len(cases) + cases
        by_rank, second_by_rank = np.empty_like(first), np.empty_like(hessians)
        by_rank.ravel()[order] = first
        second_by_rank.ravel()[order] = hessians
        lambdas[places, cases] = -_in_turn(by_rank.astype(np.float32))
        hessians[places, cases] = _in_turn(second_by_rank)
        norms = _norms(2.0 * _in_turn(by_rank))
        return (lambdas * norms).astype(np.float32), (hessians * norms).astype(np.float32)

    def _pair_sizes(
        self,
        scores: Floats,
        distances: Floats,
        ranks: NDArray[np.uint16],
        true_ranks: NDArray[np.uint16],
    ) -> Floats:
        """How much NDCG changes if the true next query and a candidate change places.

        By the distance of their scores, unless all scores of a case are the same.
        """
        sizes: Floats = np.abs(self._discounts[true_ranks] - self._discounts[ranks])
        if len(ranks) > _TRUNCATION:
            sizes[(ranks >= _TRUNCATION) & (true_ranks >= _TRUNCATION)] = 0.0
        missing = np.isneginf(scores)
        worst = np.where(missing, np.inf, scores).min(axis=0)
        alike = scores.max(axis=0) == worst
        divisors = distances + _SMALLEST
        divisors[:, alike] = 1.0
        divisors[missing] = np.inf
        sizes /= divisors
        return sizes

    def _logistic(self, differences: Floats) -> Floats:
        bins = (differences + _REACH) * _factor()
        found: Floats = _table().take(np.clip(bins, 0, _BINS - 1, out=bins).astype(np.int32))
        return found


def _factor() -> float:
    return _BINS / (2.0 * _REACH)


@cache
def _table() -> Floats:
    """The logistic function of minus the difference, by bin."""
    values: Floats = 1.0 / (1.0 + np.exp(np.arange(_BINS) / _factor() - _REACH))
    return values


def _ranks(scores: Floats) -> NDArray[np.uint16]:
    """The rank of each candidate (candidates, cases), 0 the best; ties go to the earlier one."""
    width = len(scores)
    ranks = np.zeros(scores.shape, np.uint8 if width < 256 else np.uint16)
    for place in range(width - 1):
        ahead = (scores[place] >= scores[place + 1 :]).view(np.uint8)
        ranks[place + 1 :] += ahead
        ranks[place] += ranks.dtype.type(width - 1 - place) - ahead.sum(axis=0, dtype=ranks.dtype)
    return ranks


def _in_turn(rows: NDArray[Number]) -> NDArray[Number]:
    """The sum over rows, one after the other: rounding depends on the order."""
    total: NDArray[Number] = np.zeros(rows.shape[1], rows.dtype)
    for row in rows:
        total += row
    return total


def _norms(sums: Floats) -> Floats:
    """What keeps a case of many wrong pairs from outweighing others."""
    norms = np.ones(len(sums))
    some = sums > 0
    norms[some] = np.log2(1.0 + sums[some]) / sums[some]
    return norms

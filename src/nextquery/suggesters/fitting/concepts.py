"""Concepts: queries that mean the same, found by one pass over what they have in common.

A query is a unit vector over dimensions: the pages clicked after it, or its words. Queries are
taken one by one, most frequent first; each joins the closest concept that shares a dimension with
it, if the concept stays compact, or founds its own (Cao et al., KDD 2008). Knows numbers only.

    diameter(C)^2 = mean over pairs of |u - v|^2 = 2 (m^2 - |sum of C|^2) / (m (m - 1))

for `m` unit vectors, so that the sum of its vectors is all that must be kept of a concept.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray


def unit_vectors(
    edges: pl.DataFrame, min_share: float, max_queries: int
) -> list[tuple[int, list[int], list[float]]]:
    """The vector of each query (rank, dimensions, weights), lowest rank first.

    `edges` has the columns rank, dimension and weight. Edges with less than `min_share` of their
    query's weight say little of it, dimensions with more than `max_queries` queries say nothing
    in particular; both are left out.
    """
    share = pl.col("weight") / pl.col("weight").sum().over("rank")
    telling = edges.filter(
        share >= min_share, pl.len().over("dimension") <= max_queries
    ).with_columns(pl.col("weight") / (pl.col("weight") ** 2).sum().over("rank").sqrt())
    by_query = telling.sort("rank", "dimension").group_by("rank", maintain_order=True)
    return list(by_query.agg("dimension", "weight").iter_rows())


def find_concepts(
    vectors: Iterable[tuple[int, Sequence[int], Sequence[float]]], queries: int, diameter: float
) -> NDArray[np.int32]:
    """The concept of each of `queries` ranks; a query without a vector is a concept of its own."""
    concepts = np.full(queries, -1, np.int32)
    clusters = _Clusters(diameter)
    for rank, dimensions, weights in vectors:
        concepts[rank] = clusters.add(dimensions, weights)
    alone = np.flatnonzero(concepts < 0)
    concepts[alone] = len(clusters.sizes) + np.arange(len(alone), dtype=np.int32)
    return concepts


class _Clusters:
    """Growing clusters; each dimension lists the clusters that have it with the sum of weights."""

    def __init__(self, diameter: float) -> None:
        self._limit = diameter**2
        self.sizes: list[int] = []
        self._lengths: list[float] = []  # squared, of each cluster's sum
        self._sums: dict[int, dict[int, float]] = defaultdict(dict)

    def add(self, dimensions: Sequence[int], weights: Sequence[float]) -> int:
        """Put a unit vector into the closest cluster that stays compact, or into a new one."""
        products: dict[int, float] = defaultdict(float)
        for dimension, weight in zip(dimensions, weights, strict=True):
            for cluster, total in self._sums[dimension].items():
                products[cluster] += weight * total
        # The closest centre of gravity has the largest cosine; the older cluster wins a tie.
        closest = max(
            products,
            key=lambda cluster: (products[cluster] / self._lengths[cluster] ** 0.5, -cluster),
            default=-1,
        )
        if closest < 0 or not self._stays_compact(closest, products[closest]):
            closest = len(self.sizes)
            self.sizes.append(0)
            self._lengths.append(0.0)
        self._join(closest, dimensions, weights, products.get(closest, 0.0))
        return closest

    def _stays_compact(self, cluster: int, product: float) -> bool:
        size = self.sizes[cluster] + 1
        length = self._lengths[cluster] + 2 * product + 1
        return 2 * (size * size - length) / (size * (size - 1)) <= self._limit + 1e-12

    def _join(
        self, cluster: int, dimensions: Sequence[int], weights: Sequence[float], product: float
    ) -> None:
        self.sizes[cluster] += 1
        self._lengths[cluster] += 2 * product + 1
        for dimension, weight in zip(dimensions, weights, strict=True):
            totals = self._sums[dimension]
            totals[cluster] = totals.get(cluster, 0.0) + weight

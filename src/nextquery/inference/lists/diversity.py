"""Maximal marginal relevance (Carbonell and Goldstein, 1998) over query vectors.

Trades likelihood for unlikeness: the next suggestion is the one with the highest

    (1 - diversity) * relevance - diversity * (largest cosine with those already chosen)

where relevance is the ranking value scaled to 0..1 over the list. Knows numbers only.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def diversify(values: Floats, vectors: Floats, count: int, diversity: float) -> list[int]:
    """The places of `count` entries in the order chosen; `values` best first, vectors (n, d)."""
    relevance = _scaled(values)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, 1e-12)
    likeness = unit @ unit.T
    chosen: list[int] = []
    nearest = np.zeros(len(values))
    while len(chosen) < min(count, len(values)):
        marginal = (1.0 - diversity) * relevance - diversity * nearest
        marginal[chosen] = -np.inf
        best = int(np.argmax(marginal))  # the first of equals: the more likely one
        nearest = likeness[best] if not chosen else np.maximum(nearest, likeness[best])
        chosen.append(best)
    return chosen


def _scaled(values: Floats) -> Floats:
    if len(values) == 0 or values.max() == values.min():
        return np.ones_like(values)
    return np.asarray((values - values.min()) / (values.max() - values.min()))

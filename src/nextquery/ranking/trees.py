"""Boosted trees as NumPy arrays.

A model folder stores these arrays, so that opening and asking a re-ranker needs no LightGBM.
Experiments score many more rows and use LightGBM's own, faster prediction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import ArtifactError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GRID = 2.0**-10
"""Trees are trained on and score features that are multiples of this, so that they do not depend on
rounding errors of about 1e-6 (other kernels, threads or summation orders). A power of two: simple
fractions such as 1/8 are far from the points where rounding changes direction."""


def on_grid(features: Floats) -> Floats:
    """Features rounded to multiples of `GRID`.

    >>> on_grid(np.array([3.0, 0.1 + 0.2, 0.3, -12.34567])).tolist()
    [3.0, 0.2998046875, 0.2998046875, -12.345703125]
    """
    return np.asarray(np.round(features / GRID) * GRID + 0.0)  # + 0.0: no negative zeros


@dataclass(frozen=True)
class Trees:
    """Nodes and leaves of all trees, concatenated."""

    roots: Integers
    """The first node of each tree; negative where the tree is a single leaf."""
    features: Integers
    thresholds: Floats
    left: Integers
    """The next node, or -1 - leaf."""
    right: Integers
    leaves: Floats

    def scores(self, rows: Floats) -> Floats:
        """The sum over all trees of the leaf that each row (rows, features) falls into."""
        rows = on_grid(rows)
        total = np.zeros(len(rows))
        for root in self.roots:
            current = np.full(len(rows), root)  # the node of each row, or -1 - leaf
            while (inner := np.flatnonzero(current >= 0)).size:
                nodes = current[inner]
                goes_left = rows[inner, self.features[nodes]] <= self.thresholds[nodes]
                current[inner] = np.where(goes_left, self.left[nodes], self.right[nodes])
            total += self.leaves[-1 - current]
        return total

    def check(self, columns: int) -> None:
        """Refuse trees with invalid node indices, cycles or non-finite values."""
        nodes, leaves = len(self.features), len(self.leaves)
        same = len(self.thresholds) == len(self.left) == len(self.right) == nodes
        children = np.concatenate([self.left, self.right, self.roots])
        if not same or (children.size and not -leaves <= children.min() <= children.max() < nodes):
            raise ArtifactError("trees: a child index is out of range; train the model again")
        order = np.arange(nodes)
        if any(((side >= 0) & (side <= order)).any() for side in (self.left, self.right)):
            raise ArtifactError("trees: a child comes before its parent; train the model again")
        if nodes and not 0 <= self.features.min() <= self.features.max() < columns:
            raise ArtifactError("trees: a feature index is out of range; train the model again")
        if not (np.isfinite(self.thresholds).all() and np.isfinite(self.leaves).all()):
            raise ArtifactError("trees: a value is not finite; train the model again")


def trees_from_lightgbm(dumped: Mapping[str, Any], count: int) -> Trees:
    """The first `count` trees of a LightGBM model, from its `dump_model`."""
    rows: list[list[float]] = []
    leaves: list[float] = []

    def add(node: Mapping[str, Any]) -> int:
        if "leaf_value" in node:
            leaves.append(float(node["leaf_value"]))
            return -len(leaves)
        if node["decision_type"] != "<=":
            raise ValueError(f"unsupported decision type {node['decision_type']!r}")
        index = len(rows)
        rows.append([node["split_feature"], node["threshold"], 0, 0])
        rows[index][2:] = add(node["left_child"]), add(node["right_child"])
        return index

    roots = [add(tree["tree_structure"]) for tree in dumped["tree_info"][:count]]
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    whole = [table[:, column].astype(np.int64) for column in (0, 2, 3)]
    return Trees(
        np.array(roots, dtype=np.int64), whole[0], table[:, 1], whole[1], whole[2],
        np.array(leaves, dtype=np.float64),
    )  # fmt: skip

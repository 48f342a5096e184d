"""Regression trees as plain arrays: what a trained ranker needs to score, without LightGBM.

A node sends a row to the left where `row[feature] <= threshold`; a negative child is a leaf.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import ArtifactError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Trees:
    """All nodes and leaves of all trees, one after the other."""

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
        total = np.zeros(len(rows))
        for root in self.roots:
            places = np.full(len(rows), root)
            while (inner := np.flatnonzero(places >= 0)).size:
                nodes = places[inner]
                goes_left = rows[inner, self.features[nodes]] <= self.thresholds[nodes]
                places[inner] = np.where(goes_left, self.left[nodes], self.right[nodes])
            total += self.leaves[-1 - places]
        return total

    def check(self, columns: int) -> None:
        """Refuse trees that lead outside themselves or never end."""
        nodes, leaves = len(self.features), len(self.leaves)
        same = len(self.thresholds) == len(self.left) == len(self.right) == nodes
        children = np.concatenate([self.left, self.right, self.roots])
        if not same or (children.size and not -leaves <= children.min() <= children.max() < nodes):
            raise ArtifactError("its trees lead outside themselves")
        order = np.arange(nodes)
        ahead = [(side < 0) | (side > order) for side in (self.left, self.right)]
        if not all(part.all() for part in ahead):
            raise ArtifactError("its trees go round in circles")
        if nodes and not 0 <= self.features.min() <= self.features.max() < columns:
            raise ArtifactError("its trees ask for features that are not there")
        if not (np.isfinite(self.thresholds).all() and np.isfinite(self.leaves).all()):
            raise ArtifactError("its trees hold what is no number")


def flatten_trees(dumped: Mapping[str, Any], count: int) -> Trees:
    """The first `count` trees of a LightGBM model, as its `dump_model` gives them."""
    rows: list[list[float]] = []
    leaves: list[float] = []

    def add(node: Mapping[str, Any]) -> int:
        if "leaf_value" in node:
            leaves.append(float(node["leaf_value"]))
            return -len(leaves)
        if node["decision_type"] != "<=":
            raise ValueError(f"no such decision here: {node['decision_type']}")
        place = len(rows)
        rows.append([node["split_feature"], node["threshold"], 0, 0])
        rows[place][2:] = add(node["left_child"]), add(node["right_child"])
        return place

    roots = [add(tree["tree_structure"]) for tree in dumped["tree_info"][:count]]
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    whole = [table[:, column].astype(np.int64) for column in (0, 2, 3)]
    return Trees(
        np.array(roots, dtype=np.int64), whole[0], table[:, 1], whole[1], whole[2],
        np.array(leaves, dtype=np.float64),
    )  # fmt: skip

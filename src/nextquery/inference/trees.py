"""Boosted trees as NumPy arrays.

A model folder stores these arrays, so that opening and asking a model needs no LightGBM.
Experiments score many more rows and use LightGBM's own, faster prediction.

A row is scored without walking the trees. Each tree has one bit per leaf, the leftmost leaf lowest.
A node whose condition a row fails clears the leaves of its left subtree; the lowest bit that
remains is the row's leaf (QuickScorer, Lucchese et al., SIGIR 2015). All nodes of a feature are
applied with one look at a table: which of the feature's thresholds are below the row's value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
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

BLOCK = 15_000
"""Rows times trees that are scored together. Larger arrays would come fresh from the operating
system at each call, which takes several times longer than the scores."""
MOST_LEAVES = 64
"""Leaves of one tree: a row has one bit for each."""


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
        if not len(self.roots):
            return np.zeros(len(rows))
        size = max(BLOCK // len(self.roots), 1)
        rows = on_grid(rows)
        blocks = [self._scores(rows[first : first + size]) for first in range(0, len(rows), size)]
        return np.concatenate(blocks) if blocks else np.zeros(0)

    def _scores(self, rows: Floats) -> Floats:
        lookup = self._lookup
        reachable = np.full((len(rows), len(self.roots)), lookup.every_leaf)  # (rows, trees)
        remaining = np.empty_like(reachable)
        for feature, thresholds, leaves in lookup.by_feature:
            position = np.searchsorted(thresholds, rows[:, feature])
            leaves.take(position, axis=0, out=remaining, mode="clip")  # "raise" would copy twice
            reachable &= remaining
        lowest = (reachable & -reachable).astype(np.float32)  # a power of two: its leaf is
        leaf = (lowest.view(np.int32) >> 23) - 127  # the exponent, in the upper bits of a float
        return np.asarray(lookup.values.take(leaf + lookup.first_leaf).sum(axis=1))

    @cached_property
    def _lookup(self) -> "_Lookup":
        return _lookup(self)

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
        inner = children[children >= 0]
        if len(np.unique(inner)) < len(inner):
            raise ArtifactError("trees: a node has two parents; train the model again")
        if nodes and not 0 <= self.features.min() <= self.features.max() < columns:
            raise ArtifactError("trees: a feature index is out of range; train the model again")
        if max(map(len, _leaves_of_trees(self)), default=0) > MOST_LEAVES:
            raise ArtifactError(f"trees: a tree has more than {MOST_LEAVES} leaves")
        if not (np.isfinite(self.thresholds).all() and np.isfinite(self.leaves).all()):
            raise ArtifactError("trees: a value is not finite; train the model again")


@dataclass(frozen=True)
class _Lookup:
    """The trees arranged by feature, for scoring."""

    by_feature: list[tuple[int, Floats, NDArray[np.unsignedinteger[Any]]]]
    """A feature, its thresholds in rising order, and (thresholds + 1, trees) the leaves that are
    left if 0, 1, ... of the thresholds are below the value."""
    every_leaf: np.unsignedinteger[Any]
    values: Floats
    """The leaves of all trees from left to right."""
    first_leaf: NDArray[np.int32]
    """Where each tree's leaves begin."""


def _lookup(trees: Trees) -> _Lookup:
    leaves = _leaves_of_trees(trees)
    widest = max(map(len, leaves))
    bits = next(kind for kind in (np.uint8, np.uint16, np.uint32, np.uint64)
                if widest <= 8 * np.dtype(kind).itemsize)  # fmt: skip
    every_leaf = np.iinfo(bits).max
    nodes: dict[int, list[tuple[float, int, int]]] = {}  # threshold, tree, leaves that it clears
    for tree, root in enumerate(trees.roots.tolist()):
        for node, below in _left_leaves(trees, root).items():
            feature = int(trees.features[node])
            nodes.setdefault(feature, []).append((float(trees.thresholds[node]), tree, below))
    by_feature = []
    for feature, splits in sorted(nodes.items()):
        thresholds = np.unique([threshold for threshold, _, _ in splits])
        table = np.full((len(thresholds) + 1, len(trees.roots)), every_leaf, dtype=bits)
        for threshold, tree, below in splits:
            first = int(np.searchsorted(thresholds, threshold)) + 1
            table[first:, tree] &= bits(every_leaf ^ below)
        by_feature.append((feature, thresholds, table))
    sizes = np.array([len(numbers) for numbers in leaves])
    return _Lookup(
        by_feature, bits(every_leaf), trees.leaves[np.concatenate(leaves)],
        (np.cumsum(sizes) - sizes).astype(np.int32),
    )  # fmt: skip


def _leaves_of_trees(trees: Trees) -> list[list[int]]:
    """The leaf numbers of each tree from left to right."""
    leaves = []
    for root in trees.roots.tolist():
        numbers, stack = [], [root]
        while stack:
            node = stack.pop()
            if node < 0:
                numbers.append(-1 - node)
            else:
                stack += [int(trees.right[node]), int(trees.left[node])]
        leaves.append(numbers)
    return leaves


def _left_leaves(trees: Trees, root: int) -> dict[int, int]:
    """For each node of a tree the leaves of its left subtree, as bits."""
    left: dict[int, int] = {}
    count = 0

    def leaves_below(node: int) -> int:
        nonlocal count
        if node < 0:
            count += 1
            return 1 << (count - 1)
        left[node] = leaves_below(int(trees.left[node]))
        return left[node] | leaves_below(int(trees.right[node]))

    leaves_below(root)
    return left


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

"""A suffix tree with back-off probabilities (a variable-memory Markov model), and its growth
from counted sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import (
    check_length,
    check_order,
    check_positive,
    load_array,
    require,
)
from nextquery.suggesters.background import Followers, save_array

if TYPE_CHECKING:
    import polars as pl


_FIRST_LOOK = 64


@dataclass(frozen=True)
class SuffixTree:
    """Node `i` has the key `keys[i - 1]`, made of its parent and its oldest symbol, ascending."""

    keys: NDArray[np.int64]
    followers: Followers
    symbol_counts: NDArray[np.int64]
    order: NDArray[np.int32]
    """The symbols by count, highest first; ties in the order that the user of the tree gave."""
    ranks: NDArray[np.int32]
    """The place of each symbol in that order."""
    escape: float

    @cached_property
    def total(self) -> float:
        """How many symbols were counted."""
        return float(self.symbol_counts.sum())

    def match(self, symbols: Sequence[int]) -> list[int]:
        """The nodes met when walking back through `symbols`, newest first, as far as known."""
        path: list[int] = []
        parent = 0
        for symbol in symbols:
            key = parent << 32 | symbol
            index = int(np.searchsorted(self.keys, key))
            if index == len(self.keys) or self.keys[index] != key:
                break
            parent = index + 1
            path.append(parent)
        return path

    def probabilities(self, path: Sequence[int], symbols: NDArray[Any]) -> NDArray[np.float64]:
        """The probability of each symbol at the end of a matched path."""
        probabilities = self.symbol_counts[symbols] / (self.total + 1)
        for node in path:
            counts = self.followers.count(node, symbols)
            probabilities = (counts + self.escape * probabilities) / (
                self.followers.total(node) + self.escape
            )
        return np.asarray(probabilities, np.float64)

    def escapes(self, path: Sequence[int]) -> float:
        """The probability of falling through the whole path to an unknown symbol."""
        left = 1 / (self.total + 1)
        for node in path:
            left *= self.escape / (self.followers.total(node) + self.escape)
        return left

    def best(
        self, path: Sequence[int], limit: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The `limit` most probable symbols among those that followed a sequence of the path.

        Each node's most frequent followers are looked at first; more only while a follower not
        looked at could still be among the best.
        """
        if not path:
            symbols = self.order[:limit]
            return symbols, self.probabilities(path, symbols)
        look = max(_FIRST_LOOK, 2 * limit)
        while True:
            symbols, ceiling = self._top_followers(path, look)
            probabilities = self.probabilities(path, symbols)
            best = np.lexsort((self.ranks[symbols], -probabilities))[:limit]
            if ceiling == 0 or (len(best) == limit and probabilities[best[-1]] > ceiling):
                return symbols[best], probabilities[best]
            look *= 8

    def evidence(self, path: Sequence[int], symbol: int) -> tuple[int, float]:
        """The longest sequence of the path that the symbol followed, and how often it did."""
        for length in range(len(path), 0, -1):
            count = float(self.followers.count(path[length - 1], np.array([symbol]))[0])
            if count:
                return length, count
        return 0, float(self.symbol_counts[symbol])

    def _top_followers(self, path: Sequence[int], look: int) -> tuple[NDArray[np.int32], float]:
        """The `look` most frequent followers of each node, and the most that another can have."""
        ceiling = float(self.symbol_counts[self.order[0]]) / (self.total + 1)
        seen, unread = [], False
        for node in path:
            symbols, counts = self.followers.most_frequent(node, look)
            seen.append(symbols)
            full = len(symbols) == look
            unread |= full
            next_count = float(counts[-1]) if full else 0.0
            ceiling = (next_count + self.escape * ceiling) / (
                self.followers.total(node) + self.escape
            )
        return np.unique(np.concatenate(seen)), ceiling if unread else 0.0

    def save(self, folder: Path) -> None:
        """Write the arrays into a model folder; the symbols' counts are their owner's to save."""
        save_array(folder, "nodes.npy", self.keys)
        save_array(folder, "order.npy", self.order)
        save_array(folder, "ranks.npy", self.ranks)
        self.followers.save(folder)

    @classmethod
    def load(cls, artifact: Artifact, symbol_counts: NDArray[np.int64], escape: float) -> Self:
        """Map what `save` wrote."""
        keys = load_array(artifact, "nodes.npy")
        order, ranks = load_array(artifact, "order.npy"), load_array(artifact, "ranks.npy")
        return cls(keys, Followers.load(artifact), symbol_counts, order, ranks, escape)

    def check(self) -> None:
        """Refuse arrays that make no tree."""
        symbols = len(self.symbol_counts)
        check_positive("counts of symbols", self.symbol_counts)
        check_order("order", self.order, symbols)
        check_length("ranks", self.ranks, symbols)
        in_order = self.ranks[self.order] == np.arange(symbols)
        require(bool(in_order.all()), "ranks are not those of order")
        require(self.keys.dtype == np.int64, "nodes are not whole numbers")
        ascending = bool((np.diff(self.keys) > 0).all())
        parents = self.keys >> 32
        above = bool(((parents >= 0) & (parents <= np.arange(len(self.keys)))).all())
        require(ascending and above, "nodes are out of order")
        self.followers.check(len(self.keys) + 1, symbols)


def grow_tree(
    levels: Sequence[pl.DataFrame],
    symbol_counts: NDArray[np.int64],
    order: NDArray[np.int32],
    *,
    pruning: float,
    escape: float,
) -> SuffixTree:
    """Build the tree from the counts of each sequence length, shortest first.

    A node is left out when its followers are spread as its parent's are, KL divergence below
    `pruning`, and no longer sequence needs it; sequences of one symbol always stay.
    """
    keys, nodes, symbols, counts = _all_nodes(levels)
    worth_keeping = _worth_keeping(keys, nodes, symbols, counts, pruning)
    # Numbers left after pruning; node 0 keeps its own.
    renumbered = np.cumsum(np.concatenate([[True], worth_keeping])) - 1
    parents, oldest = keys[worth_keeping] >> 32, keys[worth_keeping] & 0xFFFFFFFF
    rows = np.flatnonzero(worth_keeping[nodes - 1])
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    followers = Followers.from_counts(
        renumbered[nodes[rows]], symbols[rows], counts[rows], int(worth_keeping.sum()) + 1, ranks
    )
    grown = _keys(renumbered[parents], oldest)
    return SuffixTree(grown, followers, symbol_counts, order, ranks, escape)


def _keys(high: NDArray[Any], low: NDArray[Any]) -> NDArray[np.int64]:
    """Pairs of small numbers as single ones that sort as the pairs do."""
    return high.astype(np.int64) << 32 | low.astype(np.int64)


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different values, ascending; sorting many of them is faster than hashing them."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.diff(ordered, prepend=-1) > 0])


def _all_nodes(levels: Sequence[pl.DataFrame]) -> tuple[NDArray[Any], ...]:
    """The keys of all nodes, and (node, symbol, count) of all followers.

    Nodes are numbered level by level, so that parents come first and all keys are ascending.
    """
    from nextquery.suggesters.sequences import earlier

    keys = np.empty(0, np.int64)
    rows = []
    for length, level in enumerate(levels, start=1):
        nodes = np.zeros(len(level), np.int64)
        *newer, oldest = earlier(length)
        for column in newer:
            nodes = np.searchsorted(keys, _keys(nodes, level[column].to_numpy())) + 1
        of_rows = _keys(nodes, level[oldest].to_numpy())
        keys = np.concatenate([keys, _distinct(of_rows)])
        parents = np.searchsorted(keys, of_rows) + 1
        rows.append((parents, level["symbol"].to_numpy(), level["count"].to_numpy()))
    nodes, symbols, counts = (np.concatenate(column) for column in zip(*rows, strict=True))
    nodes, symbols = nodes.astype(np.int64), symbols.astype(np.int64)
    counts = counts.astype(np.float64 if counts.dtype.kind == "f" else np.int64)
    by_symbol = np.argsort(_keys(nodes, symbols))
    return keys, nodes[by_symbol], symbols[by_symbol], counts[by_symbol]


def _worth_keeping(
    keys: NDArray[np.int64],
    nodes: NDArray[np.int64],
    symbols: NDArray[np.int64],
    counts: NDArray[Any],
    pruning: float,
) -> NDArray[np.bool_]:
    """Whether each node differs enough from its parent, or is on the way to one that does."""
    parents = keys >> 32
    worth_keeping = np.asarray(
        (parents == 0) | (_divergences(keys, nodes, symbols, counts) >= pruning)
    )
    while True:
        needed = parents[worth_keeping & (parents > 0)] - 1
        if worth_keeping[needed].all():
            return worth_keeping
        worth_keeping[needed] = True


def _divergences(
    keys: NDArray[np.int64],
    nodes: NDArray[np.int64],
    symbols: NDArray[np.int64],
    counts: NDArray[Any],
) -> NDArray[np.float64]:
    """The KL divergence, in nats, of each node's followers from its parent's; 0 at level 1."""
    totals = np.bincount(nodes, counts, len(keys) + 1)
    parents = np.concatenate([[0], keys >> 32])[nodes]
    deep = parents > 0
    pairs = _keys(nodes, symbols)
    in_parent = counts[np.searchsorted(pairs, _keys(parents[deep], symbols[deep]))]
    share = counts[deep] / totals[nodes[deep]]
    terms = share * np.log(share * totals[parents[deep]] / in_parent)
    return np.bincount(nodes[deep], terms, len(keys) + 1)[1:].astype(np.float64)

"""Growing a suffix tree from counted sequences, and leaving out what says nothing new."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.suggesters.counts.followers import Followers
from nextquery.suggesters.counts.suffix_tree import SuffixTree
from nextquery.suggesters.fitting.sequences import earlier


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
    kept = _worth_keeping(keys, nodes, symbols, counts, pruning)
    # Numbers left after pruning; node 0 keeps its own.
    renumbered = np.cumsum(np.concatenate([[True], kept])) - 1
    parents, oldest = keys[kept] >> 32, keys[kept] & 0xFFFFFFFF
    rows = np.flatnonzero(kept[nodes - 1])
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    followers = Followers.from_counts(
        renumbered[nodes[rows]], symbols[rows], counts[rows], int(kept.sum()) + 1, ranks
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
    keys = np.empty(0, np.int64)
    rows = []
    for length, level in enumerate(levels, start=1):
        nodes = np.zeros(len(level), np.int64)
        *newer, oldest = earlier(length)
        for column in newer:
            nodes = np.searchsorted(keys, _keys(nodes, level[column].to_numpy())) + 1
        of_rows = _keys(nodes, level[oldest].to_numpy())
        keys = np.concatenate([keys, _distinct(of_rows)])
        found = np.searchsorted(keys, of_rows) + 1
        rows.append((found, level["symbol"].to_numpy(), level["count"].to_numpy()))
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
    kept = np.asarray((parents == 0) | (_divergences(keys, nodes, symbols, counts) >= pruning))
    while True:
        needed = parents[kept & (parents > 0)] - 1
        if kept[needed].all():
            return kept
        kept[needed] = True


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

"""A suffix tree over sequences of symbols, with back-off probabilities: a variable-memory Markov
model in a few sorted arrays.

A node is a sequence of symbols, newest first, that something followed; its parent is the sequence
without the oldest symbol, so that walking down means looking further back. Node 0 is the empty
sequence. Knows numbers only; what a symbol is (a query, a concept) is its user's business.

    P(x | s) = (c(s, x) + e P(x | parent of s)) / (c(s) + e)        P(x | node 0) = c(x) / (N + 1)

`e / (c(s) + e)` is the probability of escaping from `s` to its parent. Over all symbols the
probabilities sum to less than 1: what is left belongs to texts that are no symbol.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import check_length, check_order, check_positive, require
from nextquery.suggesters.counts.followers import Followers
from nextquery.suggesters.counts.storage import load_array, save_array

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

    @cached_property
    def _highest_prior(self) -> float:
        return float(self.symbol_counts[self.order[0]]) / (self.total + 1)

    def match(self, symbols: Sequence[int]) -> list[int]:
        """The nodes met when walking back through `symbols`, newest first, as far as known."""
        path: list[int] = []
        parent = 0
        for symbol in symbols:
            key = parent << 32 | symbol
            place = int(np.searchsorted(self.keys, key))
            if place == len(self.keys) or self.keys[place] != key:
                break
            parent = place + 1
            path.append(parent)
        return path

    def probabilities(self, path: Sequence[int], symbols: NDArray[Any]) -> NDArray[np.float64]:
        """The probability of each symbol at the end of a matched path."""
        found = self.symbol_counts[symbols] / (self.total + 1)
        for node in path:
            counts = self.followers.count(node, symbols)
            found = (counts + self.escape * found) / (self.followers.total(node) + self.escape)
        return np.asarray(found, np.float64)

    def escapes(self, path: Sequence[int]) -> float:
        """The probability of falling through the whole path to what is no symbol."""
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
            symbols, ceiling = self._look(path, look)
            found = self.probabilities(path, symbols)
            best = np.lexsort((self.ranks[symbols], -found))[:limit]
            if ceiling == 0 or (len(best) == limit and found[best[-1]] > ceiling):
                return symbols[best], found[best]
            look *= 8

    def evidence(self, path: Sequence[int], symbol: int) -> tuple[int, float]:
        """The longest sequence of the path that the symbol followed, and how often it did."""
        for length in range(len(path), 0, -1):
            count = float(self.followers.count(path[length - 1], np.array([symbol]))[0])
            if count:
                return length, count
        return 0, float(self.symbol_counts[symbol])

    def _look(self, path: Sequence[int], look: int) -> tuple[NDArray[np.int32], float]:
        """The `look` most frequent followers of each node, and the most that another can have."""
        seen, ceiling, more = [], self._highest_prior, False
        for node in path:
            symbols, counts = self.followers.most_frequent(node, look)
            seen.append(symbols)
            full = len(symbols) == look
            more |= full
            next_count = float(counts[-1]) if full else 0.0
            ceiling = (next_count + self.escape * ceiling) / (
                self.followers.total(node) + self.escape
            )
        return np.unique(np.concatenate(seen)), ceiling if more else 0.0

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
        require(self.keys.dtype == np.int64, "nodes are no whole numbers")
        ascending = bool((np.diff(self.keys) > 0).all())
        parents = self.keys >> 32
        above = bool(((parents >= 0) & (parents <= np.arange(len(self.keys)))).all())
        require(ascending and above, "nodes are out of order")
        self.followers.check(len(self.keys) + 1, symbols)

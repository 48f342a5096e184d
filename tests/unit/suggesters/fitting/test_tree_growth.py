"""Trees from counted sequences: every node by hand, and what pruning leaves out."""

from math import log

import numpy as np
import polars as pl
import pytest

from nextquery.suggesters.suffix_tree import SuffixTree, grow_tree

# After 0 came 1 eight times and 2 twice; that was so after 3, 0 as well, but never after 2, 0.
LEVEL_1 = pl.DataFrame({"back1": [0, 0], "symbol": [1, 2], "count": [8, 2]})
LEVEL_2 = pl.DataFrame(
    {"back1": [0, 0, 0], "back2": [3, 3, 2], "symbol": [1, 2, 2], "count": [4, 1, 1]}
)
COUNTS = np.array([10, 8, 3, 5])
ORDER = np.array([0, 1, 3, 2], np.int32)


def grown(pruning: float) -> SuffixTree:
    return grow_tree([LEVEL_1, LEVEL_2], COUNTS, ORDER, pruning=pruning, escape=1.0)


def followers(tree: SuffixTree, node: int) -> dict[int, int]:
    found = tree.followers.most_frequent(node, 9)
    return {int(symbol): int(count) for symbol, count in zip(*found, strict=True)}


def test_every_sequence_is_a_node() -> None:
    tree = grown(pruning=0.0)
    assert tree.match([0]) == [1]
    assert followers(tree, 1) == {1: 8, 2: 2}
    assert followers(tree, tree.match([0, 3])[-1]) == {1: 4, 2: 1}
    assert followers(tree, tree.match([0, 2])[-1]) == {2: 1}
    assert tree.match([1]) == []


@pytest.mark.parametrize(("pruning", "kept"), [(1e-9, True), (1.609, True), (1.61, False)])
def test_a_node_that_says_nothing_new_is_left_out(pruning: float, kept: bool) -> None:
    tree = grown(pruning)
    assert len(tree.match([0, 3])) == 1  # spread as its parent is
    # Only 2 followed, which has a fifth of the parent's: a divergence of log 5.
    assert 1.609 < log(5) < 1.61
    assert len(tree.match([0, 2])) == (2 if kept else 1)


def test_a_node_on_the_way_to_a_telling_one_stays() -> None:
    level_3 = pl.DataFrame({"back1": [0], "back2": [3], "back3": [1], "symbol": [2], "count": [1]})
    tree = grow_tree([LEVEL_1, LEVEL_2, level_3], COUNTS, ORDER, pruning=0.5, escape=1.0)
    assert len(tree.match([0, 3, 1])) == 3


def test_weighed_counts_stay_fractions() -> None:
    halves = LEVEL_1.with_columns(pl.col("count") / 4)
    tree = grow_tree([halves], COUNTS, ORDER, pruning=0.0, escape=1.0)
    assert tree.followers.total(1) == pytest.approx(2.5)

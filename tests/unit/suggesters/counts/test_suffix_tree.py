import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.suggesters.counts import Followers
from nextquery.suggesters.suffix_tree import SuffixTree, grow_tree


def _tree(followers: dict[int, int], escape: float = 1.0) -> SuffixTree:
    """A tree with one node, symbol 0, and these followers."""
    symbols = max(followers) + 1
    level = pl.DataFrame(
        {
            "back1": [0] * len(followers),
            "symbol": list(followers),
            "count": list(followers.values()),
        }
    )
    counts = np.arange(symbols, 0, -1).astype(np.int64)
    order = np.arange(symbols, dtype=np.int32)
    return grow_tree([level], counts, order, pruning=0, escape=escape)


def test_matching_stops_at_the_first_unknown_symbol() -> None:
    level = pl.DataFrame({"back1": [1, 2], "symbol": [2, 1], "count": [1, 1]})
    deeper = pl.DataFrame({"back1": [2], "back2": [1], "symbol": [1], "count": [1]})
    tree = grow_tree(
        [level, deeper], np.ones(3, np.int64), np.arange(3, dtype=np.int32), pruning=0, escape=1
    )
    assert tree.match([2, 1]) == [2, 3]
    assert tree.match([2, 0]) == [2]
    assert tree.match([0, 2]) == []
    assert tree.match([2, 1, 1]) == [2, 3]


def test_a_long_list_is_searched_only_as_far_as_needed() -> None:
    tree = _tree({symbol: 2000 - symbol for symbol in range(1, 2000)})
    symbols, found = tree.best([1], 3)
    assert symbols.tolist() == [1, 2, 3]
    assert found.tolist() == tree.probabilities([1], symbols).tolist()


def test_equal_counts_far_down_the_list_are_found_by_their_prior() -> None:
    # 1,000 followers once each: the order is that of the prior, whatever the first look saw.
    tree = _tree(dict.fromkeys(range(1, 1001), 1), escape=500.0)
    symbols, _ = tree.best([1], 200)
    assert symbols.tolist() == list(range(1, 201))


@settings(deadline=None)
@given(st.data())
def test_the_best_are_those_of_a_full_search(data: st.DataObject) -> None:
    size = data.draw(st.integers(100, 400))
    draw = np.random.default_rng(data.draw(st.integers(0, 1000)))
    short = draw.integers(1, 50, size)
    deep = np.minimum(draw.integers(0, 9, size), short)
    first = {"back1": [0] * size, "symbol": range(size), "count": short}
    second = {"back1": [0] * size, "back2": [1] * size, "symbol": range(size), "count": deep}
    levels = [pl.DataFrame(first), pl.DataFrame(second).filter(pl.col("count") > 0)]
    counts = draw.integers(1, 99, size).astype(np.int64)
    order = np.lexsort((np.arange(size), -counts)).astype(np.int32)
    tree = grow_tree(levels, counts, order, pruning=0, escape=data.draw(st.floats(0.1, 50)))
    path = tree.match([0, 1])
    every = tree.probabilities(path, np.arange(size))
    limit = data.draw(st.integers(1, 20))
    symbols, found = tree.best(path, limit)
    assert found == pytest.approx(np.sort(every)[::-1][:limit])
    assert found == pytest.approx(every[symbols])


def test_followers_are_counted_and_ordered() -> None:
    rows, following = np.array([0, 2, 0, 0]), np.array([5, 1, 3, 4])
    counts, rank = np.array([1, 7, 2, 2]), np.array([0, 1, 2, 9, 4, 5])
    table = Followers.from_counts(rows, following, counts, 3, rank)
    symbols, times = table.most_frequent(0, 2)
    assert symbols.tolist() == [4, 3]  # twice each: the lower rank first
    assert times.tolist() == [2, 2]
    assert table.count(0, np.array([3, 5, 1, -1, 99])).tolist() == [2, 1, 0, 0, 0]
    assert table.count(1, np.array([3])).tolist() == [0]
    assert [table.total(row) for row in range(3)] == [5, 0, 7]

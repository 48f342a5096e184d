"""What count models are made of: backgrounds, followers, suffix trees, concepts, stored arrays."""

from math import log, sqrt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import InputError
from nextquery.suggesters.background import (
    Background,
    Followers,
    count_background,
    frequency_ranks,
    heaviest_first,
    save_array,
)
from nextquery.suggesters.cacb import find_concepts, unit_vectors
from nextquery.suggesters.sequences import collected, following, open_log, without_repeats
from nextquery.suggesters.suffix_tree import SuffixTree, grow_tree

from .conftest import DataMaker


@pytest.fixture
def background(data_of: DataMaker) -> Background:
    sessions = [
        ("ann", ["paris", "paris hotels"]),
        ("bob", ["paris", "paris hotels"]),
        ("cat", ["paris", "rome"]),
        ("dan", ["rome", "oslo"]),  # oslo: one user, unknown
    ]
    return count_background(data_of(sessions, min_users=2))


def test_the_prior_leaves_one_observation_to_other_texts(background: Background) -> None:
    paris = background.id("paris")
    assert paris is not None
    assert background.prior(paris) == 3 / 8
    assert background.log_prior("paris") == pytest.approx(log(3 / 8))


def test_the_newest_known_queries_stop_at_the_first_unknown(background: Background) -> None:
    rome, paris = background.id("rome"), background.id("paris")
    context = ["paris", "oslo", "rome", "paris map"]
    assert background.newest_known(context, shorten=False).queries == ()
    shortened = background.newest_known(context, shorten=True)
    assert shortened.queries == (paris, rome)
    assert shortened.shortened_to == "paris"


SESSIONS = [("u1", ["red shoes", "boots"]), ("u2", ["red boots", "boots"]), ("u1", ["boots"])]


def test_the_most_frequent_have_the_lowest_ranks_and_ties_go_by_text(data_of: DataMaker) -> None:
    background = count_background(data_of(SESSIONS))
    ranks = frequency_ranks(background)
    ranked = sorted(background.queries, key=lambda text: ranks[background.queries[text]])
    assert ranked == ["boots", "red boots", "red shoes"]
    weights = np.zeros(3)
    weights[background.queries["red shoes"]] = 1.5
    order = [background.text(int(number)) for number in heaviest_first(background, weights)]
    assert order == ["red shoes", "boots", "red boots"]


def test_a_log_in_which_nothing_is_known_says_what_to_do(data_of: DataMaker) -> None:
    data = data_of(SESSIONS, min_users=3)
    with pytest.raises(InputError, match="no query was typed by 3 users; prepare it again with a"):
        count_background(data)


# Row 0: 2 followed twice, 1 twice, 3 once. Row 1: nothing. Row 2: 0 followed five times.
TABLE = Followers.from_counts(
    rows=np.array([2, 0, 0, 0]),
    following=np.array([0, 3, 2, 1]),
    counts=np.array([5, 1, 2, 2]),
    size=3,
    rank=np.array([3, 1, 0, 2]),
)


def test_the_most_frequent_come_first_and_ties_by_rank() -> None:
    result, counts = TABLE.most_frequent(0, 10)
    assert result.tolist() == [2, 1, 3]
    assert counts.tolist() == [2, 2, 1]
    assert TABLE.most_frequent(0, 1)[0].tolist() == [2]
    assert TABLE.most_frequent(1, 5)[0].tolist() == []


def test_counts_of_given_followers() -> None:
    assert TABLE.count(0, np.array([0, 1, 2, 3, 9])).tolist() == [0, 2, 2, 1, 0]
    assert TABLE.count(1, np.array([1])).tolist() == [0]


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
    symbols, result = tree.best(path, limit)
    assert result == pytest.approx(np.sort(every)[::-1][:limit])
    assert result == pytest.approx(every[symbols])


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
    result = tree.followers.most_frequent(node, 9)
    return {int(symbol): int(count) for symbol, count in zip(*result, strict=True)}


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


SYMBOL_SESSIONS = [
    ("ann", ["a", "b", "c"]),
    ("bob", ["a", "b", "x", "b", "c"]),  # x has no symbol: nothing is counted across it
    ("cat", ["a", "b"]),
]
SYMBOLS = pl.DataFrame({"query": ["a", "b", "c"], "symbol": [0, 1, 1]})


def counted(table: pl.DataFrame) -> dict[tuple[int, ...], int]:
    *symbols, count = table.columns
    assert (symbols[-1], count) == ("symbol", "count")
    return {tuple(row[:-1]): row[-1] for row in table.iter_rows()}


def test_what_followed_what(data_of: DataMaker) -> None:
    data = data_of(SYMBOL_SESSIONS, min_users=1)
    numbers = SYMBOLS.with_columns(symbol=pl.Series([0, 1, 2]))
    with open_log(data, "polars", "local[1]") as log:
        one, two = following(log, log.symbols(numbers), 2)
    assert counted(one) == {(0, 1): 3, (1, 2): 2}
    assert counted(two) == {(1, 0, 2): 1}  # newest first: after b, before it a


def test_repeats_of_one_symbol_count_once(data_of: DataMaker) -> None:
    data = data_of(SYMBOL_SESSIONS, min_users=1)
    with open_log(data, "polars", "local[1]") as log:
        rows = collected(without_repeats(log.symbols(SYMBOLS))).sort("session", "position")
    by_session = rows.group_by("session", maintain_order=True).agg("symbol")["symbol"].to_list()
    assert sorted(by_session, key=len) == [[0, 1], [0, 1], [0, 1, None, 1]]


def _concepts(edges: list[tuple[int, int, float]], queries: int, diameter: float) -> list[int]:
    frame = pl.DataFrame(edges, ["rank", "dimension", "weight"], orient="row")
    vectors = unit_vectors(frame, min_share=0, max_queries=100)
    return [int(concept) for concept in find_concepts(vectors, queries, diameter)]


def test_vectors_have_length_one_and_say_only_what_matters() -> None:
    frame = pl.DataFrame(
        [(0, 7, 3.0), (0, 8, 4.0), (1, 7, 1.0), (1, 9, 99.0), (2, 7, 5.0), (3, 6, 2.0)],
        ["rank", "dimension", "weight"],
        orient="row",
    )
    # Query 1 clicked page 7 once in 100 times; page 7 is left out where 2 queries are allowed.
    assert unit_vectors(frame, min_share=0.1, max_queries=3) == [
        (0, [7, 8], [pytest.approx(0.6), pytest.approx(0.8)]),
        (1, [9], [1.0]),
        (2, [7], [1.0]),
        (3, [6], [1.0]),
    ]
    assert unit_vectors(frame, min_share=0.1, max_queries=2)[0] == (0, [8], [1.0])


def test_two_queries_join_when_their_distance_is_within_the_diameter() -> None:
    # (1, 0) and (0.6, 0.8): distance sqrt(0.4^2 + 0.8^2) = 0.894, the diameter of the pair.
    edges = [(0, 1, 1.0), (1, 1, 3.0), (1, 2, 4.0)]
    distance = sqrt(0.4**2 + 0.8**2)
    assert _concepts(edges, 2, distance) == [0, 0]
    assert _concepts(edges, 2, distance - 0.01) == [0, 1]


def test_a_third_query_joins_only_while_the_mean_of_all_pairs_stays_within() -> None:
    # Unit vectors a = (1,0), b = (.6,.8), c = (0,1): |ab|^2 = .8, |bc|^2 = .4, |ac|^2 = 2.
    edges = [(0, 1, 1.0), (1, 1, 3.0), (1, 2, 4.0), (2, 2, 1.0)]
    mean = sqrt((0.8 + 0.4 + 2) / 3)
    assert _concepts(edges, 3, mean + 0.01) == [0, 0, 0]
    assert _concepts(edges, 3, mean - 0.01) == [0, 0, 1]


def test_the_closest_concept_wins() -> None:
    edges = [(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 2, 3.0)]
    assert _concepts(edges, 3, 1.0) == [0, 1, 1]


def test_queries_without_a_vector_stay_alone() -> None:
    assert _concepts([(1, 1, 1.0), (3, 1, 2.0)], 4, 1.0) == [1, 0, 2, 0]


def test_incremental_diameters_equal_those_of_all_pairs() -> None:
    draw = np.random.default_rng(3)
    edges = [
        (query, dimension, float(weight))
        for query in range(60)
        for dimension, weight in enumerate(draw.integers(0, 4, 6))
        if weight
    ]
    frame = pl.DataFrame(edges, ["rank", "dimension", "weight"], orient="row")
    vectors = unit_vectors(frame, 0, 100)
    concepts = find_concepts(vectors, 60, 0.8)
    dense = np.zeros((60, 6))
    for rank, dimensions, weights in vectors:
        dense[rank, dimensions] = weights
    assert len(set(concepts)) > 1
    for concept in set(concepts):
        members = dense[concepts == concept]
        if len(members) > 1:
            squares = ((members[:, None] - members[None]) ** 2).sum(-1)
            assert squares.sum() / (len(members) * (len(members) - 1)) <= 0.8**2 + 1e-9


def test_an_array_of_objects_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        save_array(tmp_path, "bad.npy", np.array([{}], dtype=object))

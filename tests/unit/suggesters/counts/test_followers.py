"""The table of followers, by hand."""

import numpy as np

from nextquery.suggesters.counts import Followers

# Row 0: 2 followed twice, 1 twice, 3 once. Row 1: nothing. Row 2: 0 followed five times.
TABLE = Followers.from_counts(
    rows=np.array([2, 0, 0, 0]),
    following=np.array([0, 3, 2, 1]),
    counts=np.array([5, 1, 2, 2]),
    size=3,
    rank=np.array([3, 1, 0, 2]),
)


def test_the_most_frequent_come_first_and_ties_by_rank() -> None:
    found, counts = TABLE.most_frequent(0, 10)
    assert found.tolist() == [2, 1, 3]
    assert counts.tolist() == [2, 2, 1]
    assert TABLE.most_frequent(0, 1)[0].tolist() == [2]
    assert TABLE.most_frequent(1, 5)[0].tolist() == []


def test_counts_of_given_followers() -> None:
    assert TABLE.count(0, np.array([0, 1, 2, 3, 9])).tolist() == [0, 2, 2, 1, 0]
    assert TABLE.count(1, np.array([1])).tolist() == [0]


def test_totals_and_length() -> None:
    assert [TABLE.total(row) for row in range(len(TABLE))] == [5, 0, 5]


def test_more_than_there_are_may_be_asked_for() -> None:
    assert TABLE.most_frequent(0, 1 << 70)[0].tolist() == [2, 1, 3]

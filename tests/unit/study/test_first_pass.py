from pathlib import Path

import pytest

from nextquery.study.first_pass import first_pass
from nextquery.study.pool import Item, Key, Pool, PooledTopic, Topic, read_key, read_pool

POOL = Pool(
    1,
    (
        PooledTopic(
            0,
            Topic("jaguar", "", ("Big Cats",)),
            (Item(0, "big cats"), Item(1, "fast jaguar"), Item(2, "lion")),
        ),
        PooledTopic(1, Topic("python"), (Item(3, "python"),)),
    ),
)
KEY = Key(2, {"A": {0: (0, 1), 1: (3,)}, "B": {0: (1, 2), 1: (3,)}})


def test_facts_by_hand() -> None:
    found = first_pass(POOL, KEY)
    assert (found.topics, found.items, found.same_lists) == (2, 4, 1)
    a, b = found.models
    # A: 3 of 4 places; "big cats" and "python" repeat the session; "big cats" is its own.
    assert a.filled == b.filled == 0.75
    assert (a.repeats, a.extends, a.alone) == pytest.approx((2 / 3, 1 / 3, 1 / 3))
    assert (b.repeats, b.extends, b.alone) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


def test_it_says_that_nobody_judged(study: Path) -> None:
    found = first_pass(read_pool(study), read_key(study))
    assert found.judged_by == "nobody"
    assert "no study" in found.notice
    assert not (study / "judgements.sqlite").exists()


def test_empty_lists_are_no_error() -> None:
    found = first_pass(Pool(1, ()), Key(5, {"A": {}, "B": {}}))
    assert found.models[0].filled == 0

"""The filter never misses a member, and its mistakes stay near the documented rate."""

from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextquery.guard.fingerprints import RareSet, pair_key, pair_keys, text_key, text_keys


def test_one_key_is_judged_as_many_are() -> None:
    texts = ["red", "shoes", "", "東京", *map(str, range(500))]
    keys = text_keys(texts, b"secret")
    assert [text_key(text, b"secret") for text in texts] == keys.tolist()
    pairs = pair_keys(keys[:-1], keys[1:])
    alone = [pair_key(*map(int, pair)) for pair in pairwise(keys.tolist())]
    assert alone == pairs.tolist()
    rare = RareSet.build(pairs[::3])
    assert [rare.has(key) for key in alone] == rare.contains(pairs).tolist()
    assert not all(map(rare.has, alone))


@given(st.lists(st.text(), max_size=50))
def test_a_member_is_never_missed(texts: list[str]) -> None:
    keys = text_keys(texts, b"secret")
    assert RareSet.build(keys).contains(keys).all()


def test_about_one_in_seventy_others_is_claimed_wrongly() -> None:
    members = text_keys((f"in {number}" for number in range(50_000)), b"secret")
    others = text_keys((f"out {number}" for number in range(50_000)), b"secret")
    share = RareSet.build(members).contains(others).mean()
    assert 0.010 < share < 0.018


def test_the_order_of_a_pair_and_the_secret_matter() -> None:
    forward = pair_keys(text_keys(["a", "b"], b"one"), text_keys(["b", "a"], b"one"))
    assert forward[0] != forward[1]
    assert text_keys(["a"], b"one") != text_keys(["a"], b"two")


def test_a_filter_survives_its_file(tmp_path: Path) -> None:
    keys = text_keys(["a", "b", "c"], b"secret")
    RareSet.build(keys).save(tmp_path / "set.npy")
    assert RareSet(np.load(tmp_path / "set.npy")).contains(keys).all()
    assert not RareSet.build(np.empty(0, dtype=np.uint64)).contains(keys).any()

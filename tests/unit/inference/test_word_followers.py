"""Followers against trying every pair, and against the compiled kernels."""

import numpy as np
import pytest

from nextquery.guard.fingerprints import pair_keys, text_keys
from nextquery.inference.native import address, native_library
from nextquery.inference.rules import FollowerTable

WORDS = [f"w{number}" for number in range(700)]
KEYS = text_keys(WORDS, b"secret")


def table(share: float) -> tuple[FollowerTable, np.ndarray]:
    """Pairs drawn at random, and which they are."""
    seen = np.random.default_rng(3).random((len(WORDS), len(WORDS))) < share
    keys = pair_keys(KEYS[:, None], KEYS[None, :])[seen]
    return FollowerTable(KEYS, np.sort(keys)), seen


@pytest.mark.parametrize("share", [0.0, 0.001, 0.2])
def test_the_followers_of_a_word_are_those_it_was_seen_with(share: float) -> None:
    followers, seen = table(share)
    for word in (0, 5, 699):
        np.testing.assert_array_equal(followers.of(word), np.flatnonzero(seen[word]))
        assert followers.of(word) is followers.of(word)


@pytest.mark.parametrize("instructions", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.2])
def test_the_kernels_find_the_same(share: float, instructions: str) -> None:
    library = native_library()
    if library is None or not library.use(instructions):
        pytest.skip(f"no {instructions} here")
    followers, _ = table(share)
    common = followers.common
    pairs = library.pairs_open(address(KEYS), len(KEYS), address(common), len(common))
    try:
        for word in range(0, 700, 7):
            found = library.followers(pairs, word)
            assert found[1 : found[0] + 1] == followers.of(word).tolist()
    finally:
        library.pairs_close(pairs)
        library.use(None)

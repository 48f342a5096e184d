"""Candidates: what is counted exactly, and that the rest is estimated without bias."""

import numpy as np
import pytest

from nextquery.model.loss import CandidateSampler

COUNTS = np.array([9, 256, 16, 16, 1, 0, 1])  # the first is padding, whatever its count


def test_words_are_drawn_by_their_damped_frequency() -> None:
    sampler = CandidateSampler(COUNTS, 0, 1)
    weights = np.array([0, 64, 8, 8, 1, 1, 1])  # counts of at least 1, to the power of 3/4
    np.testing.assert_allclose(sampler.frequency, weights / weights.sum())


def test_the_most_frequent_and_the_targets_are_counted_exactly() -> None:
    sampler = CandidateSampler(COUNTS, 3, 1)
    found = sampler.draw(np.array([4, 4, 1]), np.random.default_rng(1))
    exact = found.words[found.correction == 0].tolist()
    assert {1, 2, 4} <= set(exact)  # the head without padding, and the target 4
    assert found.words.tolist() == sorted(set(found.words.tolist()))
    assert 0 not in found.words
    np.testing.assert_array_equal(found.words[found.index(np.array([4, 1]))], [4, 1])


def test_a_drawn_word_stands_for_those_like_it() -> None:
    sampler = CandidateSampler(COUNTS, 2, 50)  # padding and word 1 lead: word 1 is the head
    found = sampler.draw(np.array([2, 3]), np.random.default_rng(1))
    # 4, 5 and 6 are left, alike: the weights of those drawn sum to three words.
    drawn = ~np.isin(found.words, [1, 2, 3])
    assert np.exp(found.correction[drawn]).sum() == pytest.approx(3.0)


def test_the_estimate_has_no_bias() -> None:
    rng = np.random.default_rng(5)
    counts = np.array([0, *rng.integers(1, 200, 30)])
    value = np.concatenate([[0.0], rng.random(30)])  # what each word adds to the normaliser
    sampler = CandidateSampler(counts, 4, 40)
    sums = []
    for _ in range(3000):
        found = sampler.draw(np.array([7]), rng)
        sums.append((np.exp(found.correction) * value[found.words]).sum())
    error = np.std(sums) / np.sqrt(len(sums))
    assert error < 0.02 * value.sum()
    assert abs(np.mean(sums) - value.sum()) < 4 * error

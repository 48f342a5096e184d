import numpy as np
import pytest

from nextquery.evaluation.scenarios import NOISY_QUERIES, Noise
from nextquery.ranking.cases import BackgroundCounts

NOISY = {"google": 300, "ebay": 100, **{f"q{number:03}": 2 for number in range(200)}}


def test_noise_is_one_of_the_most_frequent_queries() -> None:
    noise = Noise(BackgroundCounts(NOISY, {}), seed=0)

    assert noise.queries[:2] == ["google", "ebay"]
    assert len(noise.queries) == NOISY_QUERIES
    assert noise.within(("a", "q097"))
    assert not noise.within(("a", "q098"))


def test_it_is_drawn_by_frequency_and_put_anywhere() -> None:
    noise = Noise(BackgroundCounts(NOISY, {}), seed=0)
    drawn = [noise.insert(("a", "b"), session) for session in range(600)]

    assert {context.position for context in drawn} == {0, 1, 2}
    assert all(context.queries[context.position] in noise.queries for context in drawn)
    share = np.mean([context.queries[context.position] == "google" for context in drawn])
    assert share == pytest.approx(300 / (400 + 98 * 2), abs=0.06)

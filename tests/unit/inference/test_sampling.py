"""Queries drawn by their probability."""

import numpy as np
import pytest

from nextquery.inference.predictor import Predictor
from nextquery.inference.search import shape
from nextquery.inference.settings import DecodeConfig


def test_probabilities_are_shaped_by_hand() -> None:
    scores = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    assert shape(scores, DecodeConfig()) == pytest.approx([0.5, 0.3, 0.15, 0.05])
    assert shape(scores, DecodeConfig(top_k=2)) == pytest.approx([0.625, 0.375, 0, 0])
    assert shape(scores, DecodeConfig(top_p=0.7)) == pytest.approx([0.625, 0.375, 0, 0])
    cold = shape(scores, DecodeConfig(temperature=0.5))
    assert cold == pytest.approx(np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365)


def test_samples_follow_the_seed_and_the_likelihood(any_predictor: Predictor) -> None:
    state = any_predictor.encoder.encode(["w1 w2"])

    def draw(seed: int) -> list[str]:
        config = DecodeConfig(strategy="sample", beam=12, max_words=3, seed=seed, specificity=0.0)
        found = any_predictor.suggest_many([state], 12, config)[0]
        scored = any_predictor.score_many([state], [[each.text for each in found]])[0]
        for suggestion, score in zip(found, scored, strict=True):
            assert suggestion.score == pytest.approx(score.log_likelihood, abs=1e-4)
        return [each.text for each in found]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert 1 < len(draw(1)) <= 12


def test_sampling_one_word_is_greedy(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2"])
    config = DecodeConfig(strategy="sample", beam=3, top_k=1, max_words=4)
    assert len({each.text for each in predictor.suggest_many([state], 3, config)[0]}) <= 1

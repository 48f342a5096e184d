"""The trainers that `bench train` compares compute the same loss; one that fails says so."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from nextquery.model.likelihood import SessionLikelihood
from nextquery.text.batching import build_batch
from train import _alone, _bucketed_loss, _figures, _grid, _model, _padded_loss, _ratios, _sessions


def test_three_trainers_compute_one_loss() -> None:
    corpus, model, members = _sessions("small", 200), _model("small"), np.array([5, 9, 100, 7, 8])
    with torch.no_grad():
        total, rows = SessionLikelihood(model, 256)(build_batch(corpus, members))
        good, words = _bucketed_loss(model, corpus, members)
        plain = _padded_loss(model, torch.from_numpy(_grid(corpus, members)))
    assert words == len(rows)
    # The others let the padding symbol take part in the softmax.
    assert float(good) == pytest.approx(-float(total), rel=1e-5)
    assert float(plain) * words == pytest.approx(float(good), rel=1e-5)


def test_a_trainer_that_cannot_run_says_so() -> None:
    failed = _alone("packed", "no such size", 1)
    assert "no such size" in str(failed["failed"])
    assert _figures(failed) == failed
    assert _ratios(failed, {"good": {"seconds_per_word": 1.0, "processor_per_word": 1.0}}) == {}


def test_the_share_is_that_of_the_limit() -> None:
    figures = _figures(
        {
            "steps": 10,
            "seconds_per_word": 0.5,
            "processor_per_word": 0.25,
            "peak_memory_mb": 1.0,
            "operations_per_word": 20.0,
            "operations_per_second": 100.0,
        }
    )
    assert figures["limit_words_per_second"] == 5.0
    assert figures["share_of_limit"] == 0.8


def test_the_configured_model_is_the_shipped_one() -> None:
    config = _model("small", configured=True).config
    assert (config.copying, config.tied, config.decoder_context) == (True, True, "all")

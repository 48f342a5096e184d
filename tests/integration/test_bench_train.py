"""The trainers that `bench train` compares compute the same loss."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from nextquery.model.likelihood import SessionLikelihood
from nextquery.text.batching import build_batch
from train import _bucketed_loss, _grid, _model, _padded_loss, _sessions


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

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.export.onnx import OnnxModel, write_graphs
from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextLimits
from nextquery.inference.decoder import NeuralModel
from nextquery.inference.hred import HREDModel
from nextquery.inference.predictor import Predictor
from nextquery.inference.transformer import TransformerModel, weight_shapes
from nextquery.model.settings import TransformerConfig
from nextquery.text.vocabulary import Vocabulary

from .test_onnx_graphs import FORMS, random_network

LIMITS = ContextLimits(queries=3, words=2)
CONTEXTS = [[], ["w1 w2"], ["w1", "outside w3", "w4 w5 w6"], ["w9", "w1", "w2", "outside", "w3"]]
CANDIDATES = ["w1 w2", "outside", "w7 w8 w9", "w3 outside w1"]


@pytest.mark.parametrize("settings", FORMS.values(), ids=list(FORMS))
def test_likelihoods_are_those_of_hred(settings: dict[str, Any], tmp_path: Path) -> None:
    assert_scores_alike(HREDModel(random_network(**settings)), tmp_path)


@pytest.mark.parametrize("copy", [False, True], ids=["plain", "copying"])
def test_likelihoods_are_those_of_the_transformer(copy: bool, tmp_path: Path) -> None:
    sizes = {"vocabulary_size": 40, "embedding_size": 6, "model_size": 16, "heads": 2, "layers": 3}
    config = TransformerConfig.model_validate({**sizes, "copy": copy})
    vocabulary = Vocabulary(f"w{number}" for number in range(40))
    generator = np.random.default_rng(0)
    weights = {
        name: generator.normal(scale=0.5, size=shape).astype(np.float32)
        for name, shape in weight_shapes(config, len(vocabulary)).items()
    }
    assert_scores_alike(TransformerModel(config, vocabulary, weights), tmp_path)


def assert_scores_alike(model: NeuralModel[Any], folder: Path) -> None:
    """Cut sessions and queries, words outside the vocabulary and empty sessions included."""
    write_graphs(model, LIMITS, folder)
    (folder / "vocabulary.txt").write_text("\n".join(model.vocabulary.words) + "\n")
    exported, predictor = OnnxModel(folder), Predictor(model, Guard(), LIMITS)
    states = predictor.encoder.encode_many(CONTEXTS)
    expected = predictor.score_many(states, [CANDIDATES] * len(CONTEXTS))
    for context, scores in zip(CONTEXTS, expected, strict=True):
        exported_scores = [exported.score(context, text) for text in CANDIDATES]
        expected_scores = [score.log_likelihood for score in scores]
        assert exported_scores == pytest.approx(expected_scores, abs=1e-4)

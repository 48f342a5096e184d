import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from nextquery.export.onnx import OnnxModel, model_facts
from nextquery.export.onnx_graphs import GRAPHS
from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextLimits
from nextquery.inference.hred import HREDModel
from nextquery.inference.predictor import Predictor

from .test_onnx_graphs import FORMS, random_network

LIMITS = ContextLimits(queries=3, words=2)
CONTEXTS = [[], ["w1 w2"], ["w1", "outside w3", "w4 w5 w6"], ["w9", "w1", "w2", "outside", "w3"]]
CANDIDATES = ["w1 w2", "outside", "w7 w8 w9", "w3 outside w1"]


@pytest.mark.parametrize("settings", FORMS.values(), ids=list(FORMS))
def test_likelihoods_are_those_of_the_model(settings: dict[str, Any], tmp_path: Path) -> None:
    """Cut sessions and queries, words outside the vocabulary and empty sessions included."""
    network = random_network(**settings)
    for name, make in GRAPHS.items():
        onnx.save_model(make(network), tmp_path / f"{name}.onnx")
    (tmp_path / "vocabulary.txt").write_text("\n".join(network.vocabulary.words) + "\n")
    (tmp_path / "model.json").write_text(json.dumps(model_facts(network, LIMITS)))
    exported = OnnxModel(tmp_path)
    predictor = Predictor(HREDModel(network), Guard(), LIMITS)
    states = predictor.encoder.encode_many(CONTEXTS)
    expected = predictor.score_many(states, [CANDIDATES] * len(CONTEXTS))
    for context, scores in zip(CONTEXTS, expected, strict=True):
        found = [exported.score(context, text) for text in CANDIDATES]
        assert found == pytest.approx([each.log_likelihood for each in scores], abs=1e-4)

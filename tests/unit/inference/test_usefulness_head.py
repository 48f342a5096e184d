"""The usefulness head on arrays is the model's own, and lists are ordered by it."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from nextquery.errors import InputError
from nextquery.inference.settings import DecodeConfig

from .conftest import ModelMaker, predictor_of

CONTEXTS = [["w3 w4", "w5"], ["w6"], []]
TEXTS = [["w7 w8 w9", "w1"], ["w2 never"], []]
PLAIN = DecodeConfig(specificity=0.0, known="free", fold=False)


@pytest.mark.parametrize(
    "settings",
    [{}, {"decoder_context": "all", "gru_biases": True}, {"copy": True, "zero_step": True}],
    ids=["paper", "all", "copying"],
)
@torch.inference_mode()
def test_it_is_the_head_of_the_model(make_model: ModelMaker, settings: dict[str, Any]) -> None:
    model = make_model(usefulness=True, **settings)
    assert model.usefulness is not None
    predictor = predictor_of(model)
    states = predictor.encoder.encode_many(CONTEXTS)
    found = predictor.usefulness_many(states, TEXTS)
    assert list(map(len, found)) == [2, 1, 0]
    for state, texts, values in zip(states, TEXTS, found, strict=True):
        session = torch.from_numpy(state.memory.session_state)[None]
        inputs = model.session_inputs(session)
        for text, value in zip(texts, values, strict=True):
            decoder = model.start_decoder(session, inputs)
            for word in model.vocabulary.encode(text)[:-1]:
                decoder = model.advance_decoder(decoder, torch.tensor([word]), inputs)
            expected = torch.sigmoid(model.usefulness(decoder)).item()
            assert value == pytest.approx(expected, rel=1e-4)


def test_a_list_is_ordered_by_both(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(usefulness=True, decoder_context="all"))
    states = predictor.encoder.encode_many([["w3 w4", "w5"]])
    [plain] = predictor.suggest_many(states, 30, PLAIN)
    weighed = PLAIN.model_copy(update={"usefulness": 4.0})
    [useful] = predictor.suggest_many(states, 30, weighed)
    [scored] = predictor.score_many(states, [[each.text for each in useful]])
    scores = {each.text: each.log_likelihood for each in scored}
    for each in useful:
        assert each.usefulness is not None
        assert each.score == pytest.approx(
            scores[each.text] + 4.0 * math.log(each.usefulness), abs=1e-4
        )
    assert [each.score for each in useful] == sorted((e.score for e in useful), reverse=True)
    assert [each.text for each in useful] != [each.text for each in plain]
    assert all(each.usefulness is None for each in plain)


def test_a_model_without_it_says_so(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model())
    assert not predictor.judges_usefulness
    with pytest.raises(InputError, match="no usefulness head; train one with"):
        predictor.usefulness_many([], [])
    with pytest.raises(InputError, match="no usefulness head; train one with"):
        predictor.suggest_many([], 5, DecodeConfig(usefulness=1.0))


def test_a_hopeless_query_keeps_a_finite_logarithm(make_model: ModelMaker) -> None:
    model = make_model(usefulness=True)
    assert model.usefulness is not None
    with torch.no_grad():
        model.usefulness.bias.fill_(-1000.0)
    predictor = predictor_of(model)
    [[found]] = predictor.usefulness_many([predictor.encoder.start()], [["w1"]])
    assert found > 0
    assert np.isfinite(math.log(found))

"""The packed decoder against HRED's own steps, which are the reference."""

from typing import Any

import pytest
import torch

from nextquery.inference.kernels.packed_decoder import PackedDecoder

from ..conftest import ModelMaker

SETTINGS = [
    {},
    {"factored": False},
    {"tied": True},
    {"decoder_context": "output"},
    {"decoder_context": "all", "gru_biases": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@torch.inference_mode()
def test_a_step_is_that_of_the_model(make_model: ModelMaker, settings: dict[str, Any]) -> None:
    model = make_model(**settings)
    packed = PackedDecoder(model)
    hidden, words = torch.randn((7, model.config.query_size)), torch.arange(3, 10)
    session = model.session_inputs(torch.randn((7, model.config.session_size)))
    after = packed.advance(hidden, words, session)
    torch.testing.assert_close(after, model.advance_decoder(hidden, words, session))
    previous = packed.previous_words(words)
    torch.testing.assert_close(previous, model.previous_words(words))
    for given, last in ((previous, words), (None, None)):
        omega = packed.omega(hidden, given, session)
        torch.testing.assert_close(omega, model.output_vector(hidden, last, session))

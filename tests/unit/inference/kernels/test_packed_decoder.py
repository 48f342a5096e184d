"""The packed decoder against HRED's own steps, which are the reference."""

import pytest
import torch

from nextquery.inference.kernels.packed_decoder import PackedDecoder

from ..conftest import ModelMaker


@pytest.mark.parametrize("settings", [{}, {"factored": False}, {"tied": True}], ids=str)
@torch.inference_mode()
def test_a_step_is_that_of_the_model(make_model: ModelMaker, settings: dict[str, bool]) -> None:
    model = make_model(**settings)
    packed = PackedDecoder(model)
    hidden, words = torch.randn((7, model.config.query_size)), torch.arange(3, 10)
    torch.testing.assert_close(packed.advance(hidden, words), model.advance_decoder(hidden, words))
    previous = packed.previous_words(words)
    torch.testing.assert_close(previous, model.previous_words(words))
    omega = packed.omega(hidden, previous)
    torch.testing.assert_close(omega, model.output_vector(hidden, words))
    torch.testing.assert_close(packed.omega(hidden, None), model.output_vector(hidden, None))

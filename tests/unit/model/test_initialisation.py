"""First weights as in the authors' code."""

import pytest
import torch

from nextquery.model.hred import HRED
from nextquery.model.initialisation import initialise_as_authors
from nextquery.model.settings import ModelConfig
from nextquery.text.vocabulary import PADDING, Vocabulary

VOCABULARY = Vocabulary([f"word{index}" for index in range(200)])


@pytest.mark.parametrize("factored", [True, False])
def test_matrices_are_small_biases_zero_and_recurrences_orthogonal(factored: bool) -> None:
    torch.manual_seed(2)
    sizes = {"embedding_size": 32, "query_size": 40, "session_size": 48}
    choices = {"gru_biases": True, "output_bias": True, "decoder_context": "all", "copy": True}
    config = ModelConfig.model_validate({**sizes, **choices, "factored": factored})
    model = HRED(config, VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.fill_(1.0)
    initialise_as_authors(model)
    for name, parameter in model.named_parameters():
        if name.endswith((".gates", ".candidate")):
            for matrix in parameter.detach().view(-1, *parameter.shape[1:] * 2):
                torch.testing.assert_close(matrix @ matrix.t(), torch.eye(len(matrix)))
        elif parameter.dim() == 1:
            assert not parameter.any(), name
        else:
            assert 0.008 < float(parameter.detach().std()) < 0.012, name
    assert not model.output_matrix[PADDING].any()

"""First weights that are not PyTorch's own. Knows the model's parameters, nothing of training."""

import torch
from torch import nn

from nextquery.model.hred import HRED
from nextquery.text.vocabulary import PADDING

SPREAD = 0.01
_RECURRENT = (".gates", ".candidate")


@torch.no_grad()
def initialise_as_authors(model: HRED) -> None:
    """As the authors' code begins: N(0, .01), biases zero, recurrent matrices orthogonal.

    >>> from nextquery.model.settings import ModelConfig
    >>> from nextquery.text.vocabulary import Vocabulary
    >>> model = HRED(ModelConfig(session_size=8, query_size=8), Vocabulary(["word"]))
    >>> initialise_as_authors(model)
    >>> bool(model.decoder_start.weight.abs().max() < 0.06), bool(model.decoder_start.bias.any())
    (True, False)
    """
    for name, parameter in model.named_parameters():
        if name.endswith(_RECURRENT):
            continue  # orthogonal from the start
        if parameter.dim() == 1:
            parameter.zero_()
        else:
            parameter.normal_(std=SPREAD)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.weight[PADDING] = 0.0

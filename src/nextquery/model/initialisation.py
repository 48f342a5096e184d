"""First weights that are not PyTorch's own. Knows the model's parameters, nothing of training.

Word vectors may come from elsewhere: what their words mean to each other is then known before the
first step, which a small log cannot teach.
"""

import torch
from torch import nn

from nextquery.model.hred import HRED
from nextquery.text.vocabulary import PADDING
from nextquery.text.word_vectors import WordVectors

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


@torch.no_grad()
def take_word_vectors(model: HRED, found: WordVectors) -> None:
    """Begin with these vectors, reduced to the model's size and as long as those drawn at random.

    Words that are not among them keep their random vectors; if there are fewer numbers than the
    model has, the others stay random, too.
    """
    assert model.word_vectors is not None
    table = model.word_vectors.weight
    vectors = torch.from_numpy(found.reduced(table.shape[1]).vectors)
    spread = float(vectors.std())
    rows = torch.tensor([model.vocabulary.id(word) for word in found.words])
    table[rows, : vectors.shape[1]] = vectors * (float(table.std()) / max(spread, 1e-12))

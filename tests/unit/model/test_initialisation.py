"""First weights as in the authors' code, and word vectors from elsewhere."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nextquery.model.hred import HRED, initialise_as_authors, take_word_vectors
from nextquery.model.settings import ModelConfig
from nextquery.text.vectors import WordVectors
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


@pytest.mark.parametrize("size", [20, 3])
def test_given_vectors_are_reduced_and_as_long_as_random_ones(size: int) -> None:
    torch.manual_seed(2)
    model = HRED(ModelConfig(embedding_size=8, query_size=8, session_size=8), VOCABULARY)
    assert model.word_vectors is not None
    before = model.word_vectors.weight.detach().clone()
    rng = np.random.default_rng(3)
    words = tuple(f"word{number}" for number in range(0, 200, 2))
    given = WordVectors(words, (5 * rng.normal(size=(100, size))).astype(np.float32))
    take_word_vectors(model, given)
    after = model.word_vectors.weight.detach()
    changed = (after != before).any(dim=1)
    assert changed.sum() == 100
    assert not changed[VOCABULARY.id("word1")]
    assert changed[VOCABULARY.id("word2")]
    kept = min(size, 8)
    assert torch.equal(after[:, kept:], before[:, kept:])
    assert float(after[changed, :kept].std()) == pytest.approx(0.1, rel=0.1)
    expected = torch.from_numpy(given.reduced(8).vectors)
    rows = torch.tensor([VOCABULARY.id(word) for word in words])
    ratio = after[rows, :kept] / expected
    torch.testing.assert_close(ratio, ratio[:1, :1].expand_as(ratio))


class Writes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations that write into a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memory = tensor.untyped_storage().data_ptr()
        self.operations: list[str] = []

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        written = isinstance(args[0], torch.Tensor) if operation._schema.is_mutable else False
        if written and args[0].untyped_storage().data_ptr() == self.memory:
            self.operations.append(str(operation))
        return operation(*args, **(kwargs or {}))


def test_given_vectors_reach_a_model_on_another_device() -> None:
    """`copy_` takes values of any device; all other operations want those of the tensor."""
    model = HRED(ModelConfig(embedding_size=8, query_size=8, session_size=8), VOCABULARY)
    assert model.word_vectors is not None
    given = WordVectors(("word3", "word7"), np.eye(2, 20, dtype=np.float32))
    with Writes(model.word_vectors.weight) as writes:
        take_word_vectors(model, given)
    assert writes.operations == ["aten.copy_.default"]

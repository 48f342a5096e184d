"""The output layer over the whole vocabulary, in two modes.

- `exact`: 32-bit products of a packed matrix; the best words are looked for only in those blocks of
  the vocabulary that can hold them.
- `fast`: 8-bit products choose the words, 32-bit ones score them and take the place of the 8-bit
  ones in the normaliser.

Knows output vectors and omega (Eq. 9 and 10); knows nothing of beams, words or copying.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from nextquery.inference.settings import Mode
from nextquery.text.vocabulary import PADDING

_BLOCK = 64


class BestWords(NamedTuple):
    """The best words of each row, best first."""

    words: Tensor
    """(rows, count): word ids."""
    log_probabilities: Tensor
    """(rows, count)."""
    rest: Tensor
    """(rows,): no other word is more likely than this."""


class WordScores(ABC):
    """What the softmax says for some rows of omega (rows, d_e)."""

    @abstractmethod
    def best(self, count: int) -> BestWords:
        """The `count` most likely words of each row."""

    @abstractmethod
    def of(self, words: Tensor) -> Tensor:
        """The log-probability of given words: (rows, words) from ids (rows, words)."""


class OutputLayer(ABC):
    """Eq. 9 for one model."""

    def __init__(self, output_matrix: Tensor) -> None:
        self.matrix = output_matrix  # (V, d_e)

    @abstractmethod
    def scores(self, omega: Tensor) -> WordScores:
        """Start on some rows."""


class _Normalised(WordScores):
    """Scores from logits and the log of the normaliser."""

    def __init__(self, layer: OutputLayer, omega: Tensor, normaliser: Tensor) -> None:
        self._layer = layer
        self._omega = omega
        self._normaliser = normaliser  # (rows,)

    def of(self, words: Tensor) -> Tensor:
        return self._logits_of(words) - self._normaliser[:, None]

    def _logits_of(self, words: Tensor) -> Tensor:
        vectors = self._layer.matrix[words]  # (rows, words, d_e)
        return torch.bmm(vectors, self._omega[:, :, None]).squeeze(2)


class _ExactScores(_Normalised):
    def __init__(self, layer: OutputLayer, omega: Tensor, logits: Tensor) -> None:
        super().__init__(layer, omega, logits.logsumexp(dim=1))
        self._logits = logits  # (rows, padded V)
        self._blocks = logits.view(len(logits), -1, _BLOCK)
        self._block_best = self._blocks.amax(dim=2)

    def best(self, count: int) -> BestWords:
        words, logits = best_in_blocks(self._blocks, self._block_best, count)
        return best_words(words, logits - self._normaliser[:, None], self._layer)

    def _logits_of(self, words: Tensor) -> Tensor:
        return self._logits.gather(1, words)


class ExactOutput(OutputLayer):
    """32-bit numbers throughout."""

    def __init__(self, output_matrix: Tensor) -> None:
        super().__init__(output_matrix)
        self._packed, self._bias = _padded(output_matrix)
        self._packed = pack(self._packed)

    def scores(self, omega: Tensor) -> WordScores:
        """Start on some rows."""
        return _ExactScores(self, omega, packed_linear(omega, self._packed, self._bias))


def best_words(words: Tensor, log_probabilities: Tensor, layer: OutputLayer) -> BestWords:
    """Words in order, with the last one as the bound for those not listed, if there are any."""
    complete = words.shape[1] >= len(layer.matrix)
    rest = log_probabilities[:, -1]
    rest = torch.full_like(rest, -torch.inf) if complete else rest
    return BestWords(words, log_probabilities, rest)


def best_in_blocks(blocks: Tensor, block_best: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest entries of each row and their places, largest first.

    `blocks` is (rows, blocks, size), `block_best` (rows, blocks) their maxima. The largest `count`
    entries lie in the `count` blocks of the largest maxima.
    """
    rows, number, size = blocks.shape
    if count * 2 >= number:
        values, places = blocks.reshape(rows, -1).topk(min(count, number * size), dim=1)
        return places, values
    chosen = block_best.topk(count, dim=1, sorted=False).indices  # (rows, count)
    inside = blocks.gather(1, chosen[:, :, None].expand(-1, -1, size)).reshape(rows, -1)
    values, places = inside.topk(count, dim=1)
    return chosen.gather(1, places // size) * size + places % size, values


def _padded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix with rows added up to whole blocks, and a bias that makes those impossible."""
    words, size = matrix.shape
    more = -words % _BLOCK
    padded = torch.cat([matrix, matrix.new_zeros((more, size))]) if more else matrix
    bias = matrix.new_zeros(words + more)
    bias[words:] = -torch.inf
    bias[PADDING] = -torch.inf
    return padded, bias


def pack(matrix: Tensor) -> Tensor:
    """A matrix laid out for `packed_linear` by oneDNN; as it is where there is none."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return matrix
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix, None)
    return packed


def packed_linear(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """`rows @ matrix.T + bias` for a matrix laid out by `pack`."""
    if not packed.is_mkldnn:
        return functional.linear(rows, packed, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return product


def output_layer(mode: Mode, output_matrix: Tensor) -> OutputLayer:
    """The output layer of a mode."""
    layers: dict[Mode, type[OutputLayer]] = {"exact": ExactOutput}
    return layers[mode](output_matrix)

"""The output layer over the whole vocabulary: which words come next, and how likely (Eq. 9).

- `exact`: 32-bit products of a packed matrix; the best words are looked for only in those blocks of
  the vocabulary that can hold them.
- `fast`: 8-bit products choose the words; 32-bit ones score those and take the place of the 8-bit
  ones in the normaliser, where the most likely words matter most.

Knows output vectors and omega (Eq. 10); knows nothing of beams, text or copying.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from nextquery.inference.kernels.memory import BufferPool
from nextquery.inference.kernels.packed_matrix import PackedMatrix, QuantisedMatrix
from nextquery.inference.kernels.stored_vectors import blocks
from nextquery.inference.settings import Mode
from nextquery.text.vocabulary import END_OF_QUERY, PADDING

ALL = slice(None)
"""Every row."""

BLOCK = 64
"""Words per block: the last block is filled up with words that cannot be."""

_BLOCKS_A_PIECE = 240
"""Exact mode: at most so many blocks are packed together. A large vocabulary is packed in pieces of
equal size, so that it is never in memory twice."""

_READ_AT_A_TIME = 64 * BLOCK

_CORRECTED = 16
"""Fast mode: words per row whose 32-bit products enter the normaliser."""


@dataclass(frozen=True, eq=False)
class BestWords:
    """The best extensions of some prefixes, together: one entry an extension."""

    rows: Tensor
    """(found,): which prefix, counted from the first of those asked for."""
    words: Tensor
    """(found,): which word."""
    totals: Tensor
    """(found,): the prefix's log-likelihood and the word's."""
    rest: float
    """No other extension of these prefixes has a higher total."""


class WordScores(ABC):
    """What the softmax says for some rows of omega (rows, d_e)."""

    def __init__(self, logits: Tensor) -> None:
        self.rows = len(logits)
        # In place: a second matrix of this size would be the largest thing in memory.
        torch.ops.aten._log_softmax.out(logits, 1, False, out=logits)
        self._flat = logits  # log-probabilities from here on (rows, whole blocks of V)
        self._blocks = logits.view(self.rows, -1, BLOCK)

    @cached_property
    def _block_best(self) -> Tensor:
        return self._blocks.amax(dim=2)

    @abstractmethod
    def best(self, rows: slice, before: Tensor, count: int) -> BestWords:
        """The `count` best extensions of the prefixes in `rows`, of likelihood `before` each."""

    @abstractmethod
    def of(self, words: Tensor, rows: slice = ALL) -> Tensor:
        """The log-probability of given words (rows, words), for some rows or for all."""

    def _largest(self, rows: slice, before: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The places in (rows, V), flattened, of the largest totals, and those, largest first.

        The `count` largest entries lie in the `count` blocks of the largest maxima. Fewer than
        `count` are found only if no other word is possible.
        """
        blocks, block_best = self._blocks[rows], self._block_best[rows] + before[:, None]
        number = block_best.numel()
        chosen = block_best.flatten().topk(min(count, number), sorted=False).indices
        row = torch.div(chosen, block_best.shape[1], rounding_mode="floor")
        inside = blocks.flatten(0, 1)[chosen] + before[row][:, None]  # (blocks, BLOCK)
        totals, places = inside.flatten().topk(min(count, inside.numel()))
        possible = totals > -torch.inf
        places, totals = places[possible], totals[possible]
        block = torch.div(places, BLOCK, rounding_mode="floor")
        return chosen[block] * BLOCK + places % BLOCK, totals


class OutputLayer(ABC):
    """Eq. 9 for one model."""

    @abstractmethod
    def scores(self, omega: Tensor) -> WordScores:
        """Start on some rows."""


class _ExactScores(WordScores):
    def best(self, rows: slice, before: Tensor, count: int) -> BestWords:
        places, totals = self._largest(rows, before, count)
        size = self._flat.shape[1]
        row = torch.div(places, size, rounding_mode="floor")
        rest = -torch.inf if len(totals) < count else float(totals[-1])
        return BestWords(row, places % size, totals, rest)

    def of(self, words: Tensor, rows: slice = ALL) -> Tensor:
        return self._flat[rows].gather(1, words)


class ExactOutput(OutputLayer):
    """32-bit numbers throughout."""

    def __init__(self, vectors: nn.Embedding, bias: Tensor | None = None) -> None:
        blocks_in_all = -(-vectors.num_embeddings // BLOCK)
        self._piece = BLOCK * -(-blocks_in_all // -(-blocks_in_all // _BLOCKS_A_PIECE))
        added = _added(vectors, bias, self._piece)
        parts = zip(
            blocks(vectors, self._piece, self._piece), torch.split(added, self._piece), strict=True
        )
        self._pieces = [PackedMatrix(*part) for part in parts]
        self._width = len(added)
        self._buffers = BufferPool()

    def scores(self, omega: Tensor) -> WordScores:
        """Start on some rows."""
        if len(self._pieces) == 1:
            return _ExactScores(self._pieces[0].product(omega))
        numbers = self._buffers.take(len(omega) * self._width)
        logits = numbers[: len(omega) * self._width].view(len(omega), self._width)
        for piece, part in zip(self._pieces, torch.split(logits, self._piece, dim=1), strict=True):
            part.copy_(piece.product(omega))
        scores = _ExactScores(logits)
        self._buffers.lend(numbers, scores)
        return scores


class _FastScores(WordScores):
    def __init__(
        self, logits: Tensor, omega: Tensor, vectors: nn.Embedding, bias: Tensor | None
    ) -> None:
        end = logits[:, END_OF_QUERY].clone()
        super().__init__(logits)
        self._omega = omega
        self._vectors = vectors
        self._bias = bias
        rough = end - self._flat[:, END_OF_QUERY]
        self._normaliser = rough + self._correction(rough)  # (rows,)

    def _correction(self, normaliser: Tensor) -> Tensor:
        """How much the log of the normaliser changes with exact numbers for the likeliest words."""
        count = min(_CORRECTED, self._block_best.shape[1])
        chosen = self._block_best.topk(count, dim=1, sorted=False).indices[:, :, None]
        inside = self._blocks.gather(1, chosen.expand(-1, -1, BLOCK)).flatten(1)
        rough, places = inside.topk(count, dim=1, sorted=False)
        block = torch.div(places, BLOCK, rounding_mode="floor")
        words = chosen[:, :, 0].gather(1, block) * BLOCK + places % BLOCK
        exact = self._logits(words) - normaliser[:, None]
        possible = rough > -torch.inf
        change = (exact.exp() - rough.exp()).where(possible, 0.0)
        return torch.log1p(change.sum(dim=1))

    def _logits(self, words: Tensor, rows: slice = ALL) -> Tensor:
        products = torch.bmm(self._vectors(words), self._omega[rows, :, None]).squeeze(2)
        return products if self._bias is None else products + self._bias[words]

    def best(self, rows: slice, before: Tensor, count: int) -> BestWords:
        places, _ = self._largest(rows, before, count + count // 2 + 16)
        size = self._flat.shape[1]
        row, words = torch.div(places, size, rounding_mode="floor"), places % size
        logits = (self._vectors(words) * self._omega[rows][row]).sum(dim=1)
        if self._bias is not None:
            logits = logits + self._bias[words]
        totals = logits - self._normaliser[rows][row] + before[row]
        order = totals.argsort(descending=True)[:count]
        rest = -torch.inf if len(totals) <= count else float(totals[order[-1]])
        return BestWords(row[order], words[order], totals[order], rest)

    def of(self, words: Tensor, rows: slice = ALL) -> Tensor:
        return self._logits(words, rows) - self._normaliser[rows, None]


class FastOutput(OutputLayer):
    """8-bit numbers choose, 32-bit numbers score."""

    def __init__(self, vectors: nn.Embedding, bias: Tensor | None = None) -> None:
        self._exact, self._bias = vectors, None if bias is None else bias.detach()
        self._quantised = QuantisedMatrix(
            blocks(vectors, _READ_AT_A_TIME, BLOCK), _added(vectors, bias, BLOCK)
        )

    def scores(self, omega: Tensor) -> WordScores:
        """Start on some rows."""
        return _FastScores(self._quantised.product(omega), omega, self._exact, self._bias)


def _added(vectors: nn.Embedding, bias: Tensor | None, whole: int) -> Tensor:
    """What is added to the scores: the words' own biases, if any, and what makes padding and the
    rows behind the last word impossible."""
    words = vectors.num_embeddings
    added = torch.zeros(words + -words % whole)
    if bias is not None:
        added[:words] = bias.detach()
    added[words:] = -torch.inf
    added[PADDING] = -torch.inf
    return added


def output_layer(mode: Mode, vectors: nn.Embedding, bias: Tensor | None = None) -> OutputLayer:
    """The output layer of a mode, from `o_v` and, if the model has them, biases (V,) of Eq. 9."""
    layers: dict[Mode, type[ExactOutput] | type[FastOutput]] = {
        "exact": ExactOutput,
        "fast": FastOutput,
    }
    return layers[mode](vectors, bias)

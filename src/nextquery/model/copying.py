"""Copying words of the session (after Attend-Copy-Generate, CIKM 2017), a piece of the decoder.

Beyond the paper. The decoder attends over the word states `h_{k,j}` of the earlier queries. With
`e_n = E_o w_{n-1}` as in Eq. 10 and `age` the number of queries between (1: the anchor),

    a_j     = softmax_j( (A_q [d_{n-1}; e_n])^T A_k h_j / sqrt(d_h) + r_age(j) )
    c_n     = sum_j a_j h_j
    omega_n = omega(d_{n-1}, w_{n-1}) + C_o c_n
    g_n     = sigmoid( v^T [d_{n-1}; e_n; c_n] + b )
    P(w)    = (1 - g_n) softmax(o^T omega_n)_w + g_n sum_{j: w_j = w} a_j

so that a word outside the vocabulary can be predicted if the session has it. Words of the session
that the vocabulary lacks get ids from V on (`extended ids`). Where there is no earlier word,
`g_n = 0`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

AGES = 10
"""Queries further back than this count as this far back."""


@dataclass(frozen=True)
class States:
    """What a network computes over a batch, as copying and the softmax take it."""

    words: Tensor
    """(symbols, d_h): the state at each encoder symbol."""
    decoder: Tensor
    """(positions, d_h): the state that predicts each target."""
    previous: Tensor
    """(positions, d_e): of the last word read (Eq. 10)."""
    omega: Tensor
    """(positions, d_e): Eq. 10, without copying."""


class CopyMemory(NamedTuple):
    """The words of earlier queries that can be copied; end-of-query symbols are left out."""

    states: Tensor
    """(sessions, sources, d_h): `h_j`, zero where there is no word."""
    keys: Tensor
    """(sessions, sources, d_h): `A_k h_j`."""


class Layout(NamedTuple):
    """How packed positions and the grid of the attention belong together."""

    rows: Tensor
    """(sessions, targets): the position in each cell; any where there is none."""
    places: Tensor
    """(positions,): the cell of each position in the flattened grid."""


@dataclass(frozen=True)
class Attention:
    """Where the decoder looks at each of its positions."""

    weights: Tensor
    """(sessions, targets, sources): `a_j`, zero where nothing can be copied."""
    output: Tensor
    """(positions, d_e): `C_o c_n`, to be added to omega."""
    gate: Tensor
    """(positions,): the logit of `g_n`; minus infinity where nothing can be copied."""


class CopyAttention(nn.Module):
    """The attention, its pointer and the gate that mixes it with the softmax."""

    def __init__(self, query_size: int, embedding_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size + embedding_size, query_size, bias=False)  # A_q
        self.key = nn.Linear(query_size, query_size, bias=False)  # A_k
        self.output = nn.Linear(query_size, embedding_size, bias=False)  # C_o
        self.gate = nn.Linear(2 * query_size + embedding_size, 1)  # v, b
        self.age = nn.Parameter(torch.zeros(AGES))  # r
        self.scale = query_size**-0.5

    def remember(self, states: Tensor) -> CopyMemory:
        """Prepare word states (sessions, sources, d_h) for any number of `attend`."""
        return CopyMemory(states, self.key(states))

    def attend(
        self, decoder: Tensor, previous: Tensor, memory: CopyMemory, ages: Tensor, layout: Layout
    ) -> Attention:
        """Look at the memory from every decoder position.

        `decoder` is (positions, d_h): `d_{n-1}`; `previous` (positions, d_e): `E_o w_{n-1}`;
        `ages` (sessions, targets, sources): how many queries back each source is, 0 for a source
        that is not there or not earlier. Only the attention itself is computed on the grid.
        """
        inputs = torch.cat([decoder, previous], dim=1)
        queries = _rows(self.scale * self.query(inputs), layout.rows)
        scores = queries @ memory.keys.transpose(1, 2) + self._age_scores(ages)
        allowed = ages > 0
        # A row without any source must stay finite: softmax over a constant, then zeroed.
        weights = scores.masked_fill(~allowed, -1e9).softmax(dim=-1) * allowed
        context = _rows((weights @ memory.states).flatten(0, 1), layout.places)
        of_inputs, of_context = self.gate.weight[0].tensor_split([inputs.shape[1]])
        gate = inputs @ of_inputs + context @ of_context + self.gate.bias
        possible = allowed.any(dim=-1).flatten()[layout.places]
        return Attention(weights, self.output(context), gate.masked_fill(~possible, -torch.inf))

    def _age_scores(self, ages: Tensor) -> Tensor:
        return _rows(self.age[:, None], (ages - 1).clamp(0, AGES - 1)).squeeze(-1)


def _rows(states: Tensor, index: Tensor) -> Tensor:
    # As an embedding: the gradient of plain indexing adds up in no fixed order.
    return functional.embedding(index, states)


def pointed(weights: Tensor, same: Tensor) -> Tensor:
    """`sum_{j: w_j = w} a_j` (sessions, targets), where `same` says which `w_j` are `w`."""
    return (weights * same).sum(dim=-1)

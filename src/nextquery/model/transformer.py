"""The session Transformer, equation by equation (docs/explanation/model.md).

The queries of a session are one sequence. It begins with the end-of-query symbol, and every query
ends with it, so the symbol is both the start and the separator. A pre-norm decoder reads the
sequence; the state at a symbol predicts the next one. Sessions of a batch are packed one after the
other without padding. Only attention has a row per session, filled up at its end: symbols attend to
earlier ones, so nothing sees the filling.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nextquery.model.settings import TRANSFORMER, TransformerConfig
from nextquery.model.stored import CopyAttention, States, StoredModel, rows_at, tensor
from nextquery.text.batching import Batch
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, Vocabulary

ROTARY_BASE = 10_000.0
NORM_EPSILON = 1e-6


def rotary_angles(positions: Tensor, head_size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (positions, head_size / 2) of the rotary embedding, in float64."""
    exponents = torch.arange(0, head_size, 2, dtype=torch.float64, device=positions.device)
    angles = positions[:, None] * ROTARY_BASE ** (-exponents / head_size)
    return angles.cos(), angles.sin()


def rotate(vectors: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate the two halves of queries or keys (heads, tokens, head_size) by their positions."""
    left, right = vectors.chunk(2, dim=-1)
    return torch.cat([left * cosines - right * sines, left * sines + right * cosines], dim=-1)


class Grid:
    """Where packed tokens are in a grid with one row per session."""

    def __init__(self, sessions: Tensor, positions: Tensor) -> None:
        """`sessions` and `positions` are (tokens,): the session of each token, its place there."""
        self._rows, self._width = int(sessions[-1]) + 1, int(positions.max()) + 1
        self._cells = sessions * self._width + positions

    def spread(self, vectors: Tensor) -> Tensor:
        """From (heads, tokens, size) to (sessions, heads, width, size), zero where no token is."""
        heads, tokens, size = vectors.shape
        flat = vectors.transpose(0, 1).reshape(tokens, heads * size)
        grid = flat.new_zeros(self._rows * self._width, heads * size)
        cells = grid.index_copy(0, self._cells, flat)
        return cells.view(self._rows, self._width, heads, size).transpose(1, 2)

    def packed(self, grid: Tensor) -> Tensor:
        """From (sessions, heads, width, size) to (tokens, heads, size)."""
        return grid.transpose(1, 2).flatten(0, 1).index_select(0, self._cells)


class RMSNorm(nn.Module):
    """`x / sqrt(mean(x^2) + epsilon) * scale`."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, states: Tensor) -> Tensor:
        """Normalise states (..., d)."""
        return functional.rms_norm(states, self.scale.shape, self.scale, NORM_EPSILON)


class Block(nn.Module):
    """`x + W_o attention(N(x))`, then `x + W_2 gelu(W_1 N(x))`."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = RMSNorm(size)
        self.attention_input = nn.Linear(size, 3 * size, bias=False)  # W_q, W_k, W_v
        self.attention_output = nn.Linear(size, size, bias=False)  # W_o
        self.feed_norm = RMSNorm(size)
        self.feed_input = nn.Linear(size, 4 * size)  # W_1
        self.feed_output = nn.Linear(4 * size, size)  # W_2
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, cosines: Tensor, sines: Tensor, grid: Grid) -> Tensor:
        """States (tokens, d) of packed sessions to states (tokens, d)."""
        tokens, size = states.shape
        projected = self.attention_input(self.attention_norm(states))
        # (3, heads, tokens, head_size)
        query, key, value = projected.view(tokens, 3, self.heads, -1).permute(1, 2, 0, 3)
        attended = functional.scaled_dot_product_attention(
            grid.spread(rotate(query, cosines, sines)),
            grid.spread(rotate(key, cosines, sines)),
            grid.spread(value),
            is_causal=True,
        )
        joined = grid.packed(attended).reshape(tokens, size)
        states = states + self.dropout(self.attention_output(joined))
        hidden = functional.gelu(self.feed_input(self.feed_norm(states)), approximate="tanh")
        output: Tensor = states + self.dropout(self.feed_output(hidden))
        return output


class Transformer(StoredModel[TransformerConfig]):
    """A decoder over the symbols of a session, with copying as an optional piece.

    >>> config = TransformerConfig(vocabulary_size=2, embedding_size=4, model_size=8, heads=2)
    >>> model = Transformer(config, Vocabulary(["red", "boots"]))
    >>> words = torch.tensor([1, 3, 4, 1])  # the start, "red boots", its end
    >>> model(words, torch.zeros(4, dtype=torch.long), torch.arange(4)).shape
    torch.Size([4, 8])
    """

    kind = TRANSFORMER
    title = "Transformer"
    config_type = TransformerConfig
    output_bias = None
    usefulness = None
    character_ngrams = None

    def __init__(self, config: TransformerConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        words, d_e, size = len(vocabulary), config.embedding_size, config.model_size
        self.word_vectors = nn.Embedding(words, d_e, padding_idx=PADDING)
        self.input = nn.Linear(d_e, size, bias=False)  # W_e
        self.blocks = nn.ModuleList(
            Block(size, config.heads, config.dropout) for _ in range(config.layers)
        )
        self.norm = RMSNorm(size)
        self.output = nn.Linear(size, d_e)  # W_h, b_h
        self.copying = CopyAttention(size, d_e) if config.copying else None
        self.dropout = nn.Dropout(config.dropout)
        self._initialise()

    def _initialise(self) -> None:
        if self.word_vectors.weight.is_meta:
            return
        nn.init.normal_(self.word_vectors.weight, std=0.1)
        self.word_vectors.weight.data[PADDING] = 0.0
        shrink = 1 / math.sqrt(2 * self.config.layers)  # the variance of the sum of all branches
        for block in self.blocks:
            assert isinstance(block, Block)
            block.attention_output.weight.data *= shrink
            block.feed_output.weight.data *= shrink

    def forward(self, words: Tensor, sessions: Tensor, positions: Tensor) -> Tensor:
        """Return the states `h_t` (tokens, d) of packed sessions.

        `words`, `sessions` and `positions` are (tokens,): the symbol that is read, the session that
        it belongs to and its position there, from 0.
        """
        grid = Grid(sessions, positions)
        angles = rotary_angles(positions, self.config.model_size // self.config.heads)
        states = self.input(self.dropout(self.word_vectors(words)))
        cosines, sines = (angle.to(states.dtype) for angle in angles)
        for block in self.blocks:
            states = block(states, cosines, sines, grid)
        return self.norm(states)  # type: ignore[no-any-return]

    def states(self, batch: Batch) -> States:
        """Run over the sessions of a batch as sequences, one after the other."""
        starts = np.cumsum(batch.token_counts) - batch.token_counts
        words = np.empty(int(batch.token_counts.sum()), dtype=np.int64)
        words[starts] = END_OF_QUERY
        words[batch.encoder_tokens] = batch.encoder_words
        # The first target of a query comes after the end of the query before it.
        queries = batch.decoder_sizes[0]
        words[batch.decoder_tokens[queries:]] = batch.decoder_words
        sessions = np.repeat(np.arange(batch.sessions), batch.token_counts)
        positions = np.arange(len(words)) - starts[sessions]
        tokens = (tensor(self, array) for array in (words, sessions, positions))
        states = self(*tokens)
        decoder_tokens = tensor(self, batch.decoder_tokens)
        decoder = rows_at(states, decoder_tokens)
        return States(
            words=rows_at(states, tensor(self, batch.encoder_tokens)),
            decoder=decoder,
            previous=self.word_vectors(tensor(self, words)[decoder_tokens]),
            omega=self.output(decoder),
        )

    @property
    def output_vectors(self) -> nn.Embedding:
        """The output vectors are the input vectors."""
        return self.word_vectors

    @property
    def output_matrix(self) -> Tensor:
        """The output vectors `o_v` (V, d_e)."""
        return self.word_vectors.weight

    def outputs_of(self, words: Tensor) -> Tensor:
        """The output vectors of some words (words, d_e)."""
        return self.word_vectors(words)  # type: ignore[no-any-return]

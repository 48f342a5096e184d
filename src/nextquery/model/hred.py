"""The hierarchical recurrent encoder-decoder, equation by equation (docs/explanation/model.md).

The reference for both sides: training (`likelihood.py`) runs the same modules over packed batches,
decoding (`inference/hred_network.py`) computes the same without PyTorch, and tests compare both
with the steps here. A query is its words followed by the end-of-query symbol; the encoder reads
that symbol too, as the paper writes one sequence `Q_m` for both sides.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nextquery.model.recurrence import GRU, Linear
from nextquery.model.settings import KIND, ModelConfig
from nextquery.model.stored import CopyAttention, StoredModel
from nextquery.text.vectors import Ints, NgramTable
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, UNKNOWN, Vocabulary


class WordNgrams(nn.Embedding):
    """A vector for every bucket of n-grams; zero at first, so that a model begins as without."""

    def __init__(self, vocabulary: Vocabulary, buckets: int, size: int) -> None:
        super().__init__(buckets, size)
        self.table = NgramTable.of(vocabulary.words, buckets)

    def reset_parameters(self) -> None:
        """Nothing is drawn: the other first weights are those of a model without n-grams."""
        nn.init.zeros_(self.weight)

    def means(self, words: Tensor, outside: NgramTable | None = None) -> Tensor:
        """What n-grams add to the vectors of words (...): (..., d_e).

        An id from V on is a word of `outside`.
        """
        table = self.table if outside is None else self.table.joined(outside)
        rows = table.take(words.cpu().numpy().ravel())
        means = self._means(rows, words.device)
        return means.view(*words.shape, self.embedding_dim)

    def all_means(self) -> Tensor:
        """What n-grams add to the vectors of the whole vocabulary (V, d_e)."""
        return self._means(self.table, self.weight.device)

    def _means(self, rows: NgramTable, device: torch.device) -> Tensor:
        if not len(rows.buckets):
            return self.weight.new_zeros((len(rows), self.embedding_dim))
        used, indices = _distinct(rows.buckets, self.num_embeddings)
        # Each bucket's vector is read once, so that its gradient has one row.
        vectors = self(torch.from_numpy(used).to(device))
        return functional.embedding_bag(
            torch.from_numpy(indices).to(device),
            vectors,
            torch.from_numpy(rows.starts[:-1]).to(device),
            mode="mean",
        )


def _distinct(buckets: Ints, number: int) -> tuple[Ints, Ints]:
    """The buckets that occur, ascending, and the index of each given one among them."""
    occurs = np.zeros(number, dtype=bool)
    occurs[buckets] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[buckets]


class WordProjection(nn.Module):
    """A matrix over one-hot words: `I_r, I_u, I` of a GRU (Eq. 3) or `E_o` (Eq. 10).

    Factored, it is a projection of the shared word vectors; otherwise a table over all of V.
    """

    def __init__(self, vectors: nn.Embedding | None, words: int, sizes: tuple[int, int]) -> None:
        super().__init__()
        vector_size, size = sizes
        self.matrix = (
            nn.Embedding(words, size, padding_idx=PADDING)
            if vectors is None
            else Linear(vector_size, size, bias=False)
        )

    def forward(self, words: Tensor) -> Tensor:
        """Project word vectors (..., d_e), or look up word ids (...) when not factored."""
        return self.matrix(words)  # type: ignore[no-any-return]


class SessionInputs(NamedTuple):
    """What the decoder gets of the session state in addition to `d_0`; None: nothing."""

    step: Tensor | None
    """(rows, 3 d_h): `S s`, added to the inputs of every step (Eq. 8)."""
    output: Tensor | None
    """(rows, d_e): `S_o s`, added to omega (Eq. 10)."""

    def take(self, rows: Tensor) -> "SessionInputs":
        """Some rows, in the given order."""
        step, output = self
        return SessionInputs(
            None if step is None else step[rows], None if output is None else output[rows]
        )


class HRED(StoredModel[ModelConfig]):
    """Sections 3.2 and 3.3 of the paper, with copying as one optional piece of the decoder.

    >>> config = ModelConfig(vocabulary_size=2, embedding_size=4, query_size=6, session_size=8)
    >>> model = HRED(config, Vocabulary(["red", "boots"]))
    >>> model.output_matrix.shape  # three special symbols and two words
    torch.Size([5, 4])
    >>> model.save_pretrained("untrained")
    >>> HRED.from_pretrained("untrained").config == config
    True
    """

    kind = KIND
    title = "HRED"
    config_type = ModelConfig

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        words, d_e = len(vocabulary), config.embedding_size
        d_h, d_s = config.query_size, config.session_size
        vectors = nn.Embedding(words, d_e, padding_idx=PADDING) if config.factored else None
        self.word_vectors = vectors
        buckets = config.character_ngrams
        self.character_ngrams = WordNgrams(vocabulary, buckets, d_e) if buckets else None
        self.encoder_input = WordProjection(vectors, words, (d_e, 3 * d_h))
        self.encoder = GRU(d_h, config.gru_biases)
        self.session_input = Linear(d_h, 3 * d_s, bias=False)
        self.session_encoder = GRU(d_s, config.gru_biases)
        self.decoder_start = Linear(d_s, d_h)  # D_0, b_0
        self.decoder_input = WordProjection(vectors, words, (d_e, 3 * d_h))
        self.decoder = GRU(d_h, config.gru_biases)
        self.output_state = Linear(d_h, d_e)  # H_o, b_o
        self.output_word = WordProjection(vectors, words, (d_e, d_e))  # E_o
        self.output_vectors = (
            vectors if config.tied and vectors is not None else nn.Embedding(words, d_e)
        )  # o_v
        self.output_bias = nn.Parameter(torch.zeros(words)) if config.output_bias else None
        at_steps, in_omega = config.decoder_context == "all", config.decoder_context != "first"
        self.decoder_session = Linear(d_s, 3 * d_h, bias=False) if at_steps else None  # S
        self.output_session = Linear(d_s, d_e, bias=False) if in_omega else None  # S_o
        self.copying = CopyAttention(d_h, d_e) if config.copying else None
        self.usefulness = nn.Linear(d_h, 1) if config.usefulness else None  # of the last d_n
        self.dropout = nn.Dropout(config.dropout)
        for module in self.modules():
            if not isinstance(module, nn.Embedding) or isinstance(module, WordNgrams):
                continue
            if not module.weight.is_meta:
                nn.init.normal_(module.weight, std=0.1)
                module.weight.data[PADDING] = 0.0

    @property
    def output_matrix(self) -> Tensor:
        """The output vectors `o_v` of Eq. 9: (V, d_e)."""
        vectors = self.output_vectors.weight
        if self.character_ngrams is None or not self.config.tied:
            return vectors
        return vectors + self.character_ngrams.all_means()

    def outputs_of(self, words: Tensor) -> Tensor:
        """The output vectors of some words (words, d_e)."""
        vectors: Tensor = self.output_vectors(words)
        if self.character_ngrams is None or not self.config.tied:
            return vectors
        return vectors + self.character_ngrams.means(words)

    def word_inputs(self, words: Tensor, outside: NgramTable | None = None) -> Tensor:
        """What the word projections take: word vectors (..., d_e), ids (...) if not factored.

        With `character_ngrams` an id from V on is a word of `outside`, known by its n-grams.
        """
        if self.word_vectors is None:
            return words
        if self.character_ngrams is None:
            return self.dropout(self.word_vectors(words))  # type: ignore[no-any-return]
        vocabulary_ids = words.masked_fill(words >= len(self.vocabulary), UNKNOWN)
        added = self.character_ngrams.means(words, outside)
        return self.dropout(self.word_vectors(vocabulary_ids) + added)  # type: ignore[no-any-return]

    def encode_queries(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 4: query vectors `q_m` (queries, d_h) and word states `h_{m,n}`.

        `words` is (queries, words), each query ending in the end-of-query symbol, padded;
        `lengths` (queries,) counts that symbol. The states are (queries, words, d_h), zero
        after the end.
        """
        order = lengths.argsort(descending=True, stable=True)
        steps = torch.arange(words.shape[1], device=words.device)
        is_word = steps[:, None] < lengths[order][None, :]  # (words, queries), packed order
        states = self.run_encoder(
            words[order].t()[is_word], is_word.sum(dim=1)[: int(lengths.max())].tolist()
        )
        grid = states.new_zeros((*is_word.shape, states.shape[1]))
        grid[is_word] = states
        by_query = grid.transpose(0, 1)[order.argsort()]
        last = (lengths - 1)[:, None, None].expand(-1, 1, states.shape[1])
        return by_query.gather(1, last).squeeze(1), by_query

    def run_encoder(
        self, words: Tensor, sizes: Sequence[int], outside: NgramTable | None = None
    ) -> Tensor:
        """Eq. 4 over packed words (total,): the states `h_{m,n}` (total, d_h), packed alike."""
        projected = self.encoder_input(self.word_inputs(words, outside))
        start = projected.new_zeros((sizes[0] if sizes else 0, self.config.query_size))
        return self.encoder.run(projected, sizes, start)

    def start_session(self, sessions: int = 1) -> Tensor:
        """`s_0` (sessions, d_s): zero, or the encoded empty query with `start_query`."""
        state = self.decoder_start.weight.new_zeros((sessions, self.config.session_size))
        if not self.config.start_query:
            return state
        empty = torch.tensor([END_OF_QUERY], device=state.device)
        query_vector = self.run_encoder(empty, [1])
        return self.extend_session(state, query_vector.expand(sessions, -1))[0]

    def extend_session(self, session_state: Tensor, query_vector: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 5: `s_m` from `s_{m-1}` (rows, d_s) and `q_m` (rows, d_h), and the update gate."""
        projected = self.session_input(self.dropout(query_vector))
        return self.session_encoder.step(projected, session_state)

    def session_inputs(self, session_state: Tensor) -> SessionInputs:
        """`S s` and `S_o s` of session states (rows, d_s), as far as `decoder_context` has them."""
        step, output = self.decoder_session, self.output_session
        return SessionInputs(
            None if step is None else step(session_state),
            None if output is None else output(session_state),
        )

    def start_decoder(self, session_state: Tensor, session: SessionInputs) -> Tensor:
        """Eq. 7: `d_0` (rows, d_h), after a step on a zero input with `zero_step`."""
        start = torch.tanh(self.decoder_start(session_state))
        if not self.config.zero_step:
            return start
        nothing = start.new_zeros((len(start), 3 * self.config.query_size))
        return self.decoder.step(nothing if session.step is None else session.step, start)[0]

    def advance_decoder(
        self, decoder_state: Tensor, words: Tensor, session: SessionInputs
    ) -> Tensor:
        """Eq. 8: `d_n` from `d_{n-1}` (rows, d_h) and the words `w_n` (rows,)."""
        projected = self.decoder_input(self.word_inputs(words))
        if session.step is not None:
            projected = projected + session.step
        return self.decoder.step(projected, decoder_state)[0]

    def previous_words(self, words: Tensor) -> Tensor:
        """`E_o w_{n-1}` of Eq. 10: (..., d_e)."""
        return self.output_word(self.word_inputs(words))  # type: ignore[no-any-return]

    def output_vector(
        self, decoder_state: Tensor, words: Tensor | None, session: SessionInputs
    ) -> Tensor:
        """Eq. 10: omega (rows, d_e) of `d_{n-1}` and the last words; None: `w_0 = 0`."""
        omega: Tensor = self.output_state(decoder_state)
        if session.output is not None:
            omega = omega + session.output
        return omega if words is None else omega + self.previous_words(words)

    def word_scores(self, omega: Tensor) -> Tensor:
        """Eq. 9 before the softmax: the scores of all words (rows, V), padding included."""
        return functional.linear(omega, self.output_matrix, self.output_bias)

    @torch.no_grad()
    def stored(self) -> dict[str, Tensor]:
        """The weights as a model folder has them: a word's vector includes that of its n-grams."""
        tensors = super().stored()
        if self.word_vectors is not None and self.character_ngrams is not None:
            tensors["word_vectors.weight"] = (
                self.word_vectors.weight + self.character_ngrams.all_means()
            )
        return tensors

    @torch.no_grad()
    def loaded(self) -> None:
        """Separate what n-grams add from the word vectors, as `stored` had joined them."""
        if self.word_vectors is not None and self.character_ngrams is not None:
            self.word_vectors.weight -= self.character_ngrams.all_means()


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
        if name.endswith((".gates", ".candidate")):
            continue  # orthogonal from the start
        if parameter.dim() == 1:
            parameter.zero_()
        else:
            parameter.normal_(std=0.01)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.weight[PADDING] = 0.0

"""HRED's equations on NumPy arrays, one step each (docs/explanation/model.md has the equations).

Serving must not import PyTorch, so `model/hred.py` is written a second time here. The compiled
decoder is compared with it, and it is what runs where `nextquery-native` is not installed.
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from nextquery.inference.context import ContextBatch
from nextquery.inference.decoder import Ids, Prediction, SearchStart
from nextquery.inference.native import native_library
from nextquery.inference.output import CopySources, OutputLayer, attend
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.weights import Floats, WeightProducts
from nextquery.model.settings import ModelConfig
from nextquery.text.vectors import NgramTable
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN, Vocabulary


class SessionInputs(NamedTuple):
    """What the decoder gets of the session state in addition to `d_0`; None: nothing."""

    step: Floats | None
    """(rows, 3 d_h): `S s`, added to the inputs of every step (Eq. 8)."""
    output: Floats | None
    """(rows, d_e): `S_o s`, added to omega (Eq. 10)."""

    def take(self, rows: Ids) -> "SessionInputs":
        """Some rows, in the given order."""
        step, output = self
        return SessionInputs(
            None if step is None else step[rows], None if output is None else output[rows]
        )


class Recurrence:
    """The gated recurrent unit of Eq. 3; inputs arrive multiplied by `I_r`, `I_u` and `I`.

    In NumPy because serving does not import PyTorch. Query and session encoders always run here,
    the decoder only where `nextquery-native` is missing; tests compare the compiled one with it.
    """

    def __init__(self, weights: Mapping[str, Floats], products: WeightProducts, name: str) -> None:
        self._products = products
        self._gates = f"{name}.gates"  # H_r above H_u
        self._candidate = f"{name}.candidate"  # H
        self.bias = weights.get(f"{name}.bias")

    def step(self, projected: Floats, state: Floats) -> tuple[Floats, Floats]:
        """The next states (rows, d) and the update gates `u_n` (rows, d).

        `projected` is (rows, 3 d): the input's share of reset gate, update gate and candidate.
        """
        d = state.shape[1]
        if self.bias is not None:
            projected = projected + self.bias
        gates = sigmoid(self._products.times(self._gates, state) + projected[:, : 2 * d])
        reset, update = gates[:, :d], gates[:, d:]
        recalled = self._products.times(self._candidate, reset * state)
        candidate: Floats = np.tanh(recalled + projected[:, 2 * d :])
        return np.asarray(state + update * (candidate - state), dtype=np.float32), update


def words_by_step(queries: Sequence[Sequence[int]]) -> tuple[Ids, list[Ids]]:
    """The order of some queries, longest first, and in this order the words of each step.

    >>> order, steps = words_by_step([[5], [6, 7, 8], [9, 3]])
    >>> order.tolist(), [words.tolist() for words in steps]
    ([1, 2, 0], [[6, 9, 5], [7, 3], [8]])
    """
    order = np.argsort([-len(query) for query in queries], kind="stable")
    ordered = [queries[index] for index in order.tolist()]
    longest = len(ordered[0]) if ordered else 0
    steps = ([query[step] for query in ordered if step < len(query)] for step in range(longest))
    return order, [np.array(words, dtype=np.int64) for words in steps]


class HREDNetwork:
    """The weights of a trained HRED, and its equations."""

    def __init__(
        self,
        config: ModelConfig,
        vocabulary: Vocabulary,
        weights: Mapping[str, Floats],
        *,
        compiled: bool = True,
    ) -> None:
        """Without `compiled`, or where `nextquery-native` is not installed, NumPy computes all."""
        self.config = config
        self.vocabulary = vocabulary
        self.weights = weights
        self.library = native_library() if compiled else None
        self.products = WeightProducts(weights, self.library)
        self.encoder = Recurrence(weights, self.products, "encoder")
        self.session_encoder = Recurrence(weights, self.products, "session_encoder")
        self.decoder = Recurrence(weights, self.products, "decoder")

    @property
    def output_matrix(self) -> Floats:
        """The output vectors `o_v` of Eq. 9: (V, d_e)."""
        name = "word_vectors.weight" if self.config.tied else "output_vectors.weight"
        return self.weights[name]

    def project(self, name: str, words: Ids) -> Floats:
        """A matrix over one-hot words: `I_r, I_u, I` of a GRU (Eq. 3) or `E_o` (Eq. 10)."""
        matrix = f"{name}.matrix.weight"
        if not self.config.factored:
            return np.asarray(self.weights[matrix][words])
        return self.products.times(matrix, self.weights["word_vectors.weight"][words])

    def encode_queries(
        self, queries: Sequence[Sequence[int]], outside: Sequence[str] = ()
    ) -> list[Floats]:
        """Eq. 4: the states `h_{m,n}` of each query (words, d_h), the last of which is `q_m`.

        A query is its word ids, the end-of-query symbol included. With `character_ngrams` an id
        from V on is a word of `outside`.
        """
        spelt = self._spelt(outside)
        order, steps = words_by_step(queries)
        grid = np.empty((len(steps), len(queries), self.config.query_size), dtype=np.float32)
        state = np.zeros(grid.shape[1:], dtype=np.float32)
        for step, words in enumerate(steps):
            projected = self._encoder_input(words, spelt)
            state, _ = self.encoder.step(projected, state[: len(words)])
            grid[step, : len(words)] = state
        rows = np.argsort(order).tolist()
        return [grid[: len(query), row] for query, row in zip(queries, rows, strict=True)]

    def _spelt(self, words: Sequence[str]) -> Floats | None:
        """The vectors of words outside the vocabulary (words, d_e), by their n-grams."""
        if not words:
            return None
        table = NgramTable.of(words, self.config.character_ngrams)
        added = table.means(self.weights["character_ngrams.weight"])
        return np.asarray(self.weights["word_vectors.weight"][UNKNOWN] + added)

    def _encoder_input(self, words: Ids, spelt: Floats | None) -> Floats:
        """The input of the encoder's GRU; words from V on have the vectors `spelt`."""
        if spelt is None:
            return self.project("encoder_input", words)
        vocabulary_size = len(self.vocabulary)
        outside = words >= vocabulary_size
        vectors = self.weights["word_vectors.weight"][np.where(outside, UNKNOWN, words)]
        vectors[outside] = spelt[words[outside] - vocabulary_size]
        return self.products.times("encoder_input.matrix.weight", vectors)

    def start_session(self, sessions: int = 1) -> Floats:
        """`s_0` (sessions, d_s): zero, or the encoded empty query with `start_query`."""
        state = np.zeros((sessions, self.config.session_size), dtype=np.float32)
        if not self.config.start_query:
            return state
        empty = self.encode_queries([[END_OF_QUERY]])[0]
        return self.extend_session(state, np.repeat(empty, sessions, axis=0))[0]

    def extend_session(self, session_state: Floats, query_vector: Floats) -> tuple[Floats, Floats]:
        """Eq. 5: `s_m` from `s_{m-1}` (rows, d_s) and `q_m` (rows, d_h), and the update gate."""
        projected = self.products.times("session_input.weight", query_vector)
        return self.session_encoder.step(projected, session_state)

    def session_inputs(self, session_state: Floats) -> SessionInputs:
        """`S s` and `S_o s` of session states (rows, d_s), as far as `decoder_context` has them."""
        step, output = (
            self.products.times(name, session_state) if name in self.weights else None
            for name in ("decoder_session.weight", "output_session.weight")
        )
        return SessionInputs(step, output)

    def start_decoder(self, session_state: Floats, session: SessionInputs) -> Floats:
        """Eq. 7: `d_0` (rows, d_h), after a step on a zero input with `zero_step`."""
        product = self.products.times("decoder_start.weight", session_state)
        start: Floats = np.tanh(product + self.weights["decoder_start.bias"])
        if not self.config.zero_step:
            return start
        nothing = np.zeros((len(start), 3 * self.config.query_size), dtype=np.float32)
        return self.decoder.step(nothing if session.step is None else session.step, start)[0]

    def advance_decoder(self, decoder_state: Floats, words: Ids, session: SessionInputs) -> Floats:
        """Eq. 8: `d_n` from `d_{n-1}` (rows, d_h) and the words `w_n` (rows,)."""
        projected = self.project("decoder_input", words)
        if session.step is not None:
            projected = projected + session.step
        return self.decoder.step(projected, decoder_state)[0]

    def previous_words(self, words: Ids) -> Floats:
        """`E_o w_{n-1}` of Eq. 10: (rows, d_e)."""
        return self.project("output_word", words)

    def output_vector(
        self, decoder_state: Floats, previous: Floats | None, session: SessionInputs
    ) -> Floats:
        """Eq. 10: omega (rows, d_e) of `d_{n-1}` and `E_o w_{n-1}`; None: `w_0 = 0`."""
        omega = self.products.times("output_state.weight", decoder_state)
        omega += self.weights["output_state.bias"]
        if session.output is not None:
            omega += session.output
        return omega if previous is None else omega + previous


def sigmoid(values: Floats) -> Floats:
    """1 / (1 + e^-x), without overflow.

    >>> float(sigmoid(np.zeros(1, dtype=np.float32))[0])
    0.5
    """
    return np.asarray(0.5 * np.tanh(0.5 * values) + 0.5, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class HREDMemory:
    """What HRED remembers of a session."""

    session_state: Floats
    """(d_s,): `s_m` of Eq. 5."""
    word_states: tuple[Floats, ...] = ()
    """With copying: the word states of each query (words, d_h), without the end of the query."""


@dataclass(eq=False)
class DecodedBatch:
    """What a decoder reads of the contexts of a batch, computed once."""

    contexts: int
    session_inputs: SessionInputs
    sources: CopySources | None
    caches: Sequence[Floats] = ()
    """Of a Transformer: the key-value cache of each context."""
    record: ctypes.Structure | None = None
    """The same for the compiled kernels, made when they need it."""


@dataclass(frozen=True, eq=False)
class DecoderState:
    """The state of a decoder: one row per prefix, rows of one context together."""

    batch: DecodedBatch
    hidden: Floats
    """(rows, d_h): `d_{n-1}` of Eq. 8; of a Transformer the state after the last symbol."""
    previous: Floats | None
    """(rows, d_e): `E_o w_{n-1}` of Eq. 10; None before the first word."""
    contexts: Ids
    """(rows,): the context of each row, ascending."""

    def __len__(self) -> int:
        return len(self.contexts)

    def take(self, rows: Ids | slice) -> Self:
        """Some rows, in the given order."""
        previous = None if self.previous is None else self.previous[rows]
        contexts = self.contexts[rows]
        return replace(self, hidden=self.hidden[rows], previous=previous, contexts=contexts)


class HREDDecoder:
    """The part that both decoders of HRED share."""

    def __init__(self, network: HREDNetwork) -> None:
        self._network = network

    def start(self, batch: ContextBatch[HREDMemory]) -> DecoderState:
        """The empty prefix of every context (Eq. 7)."""
        network, contexts = self._network, len(batch.contexts)
        sources = CopySources.of(network.weights, network.products, batch)
        session_states = np.stack([memory.session_state for memory in batch.memories])
        inputs = network.session_inputs(session_states)
        hidden = network.start_decoder(session_states, inputs)
        return DecoderState(
            DecodedBatch(contexts, inputs, sources), hidden, None, np.arange(contexts)
        )

    def select(self, state: DecoderState, rows: Ids | slice) -> DecoderState:
        """Some rows of a state; a row may be repeated."""
        return state.take(rows)


class ArrayDecoder(HREDDecoder):
    """HRED's decoder with NumPy."""

    def __init__(self, network: HREDNetwork) -> None:
        super().__init__(network)
        self.vocabulary = network.vocabulary
        self._output = OutputLayer(network.output_matrix, network.weights.get("output_bias"))

    def advance(self, state: DecoderState, parents: Ids, words: Ids) -> DecoderState:
        """Prefixes with one more word each (Eq. 8); words outside V are read as unknown."""
        network, contexts = self._network, state.contexts[parents]
        read = np.where(words < len(network.vocabulary), words, UNKNOWN)
        session = state.batch.session_inputs.take(contexts)
        hidden = network.advance_decoder(state.hidden[parents], read, session)
        return DecoderState(state.batch, hidden, network.previous_words(read), contexts)

    def predict(self, state: DecoderState) -> Prediction:
        """The distribution of the next word of every row (Eq. 9 and 10)."""
        session = state.batch.session_inputs.take(state.contexts)
        omega = self._network.output_vector(state.hidden, state.previous, session)
        sources = state.batch.sources
        if sources is None:
            return self._output.predict(omega, None)
        previous = state.previous
        if previous is None:
            previous = np.zeros_like(omega)
        attended, pointer = attend(
            self._network.weights, sources, state.hidden, previous, state.contexts
        )
        return self._output.predict(omega + attended, pointer)

    def steps(self, start: SearchStart, config: DecodeConfig) -> None:
        """There are no faster ones than `search.ArraySteps`."""

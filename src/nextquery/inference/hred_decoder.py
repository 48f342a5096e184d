"""HRED's decoder in NumPy: what the compiled decoder must reproduce, and what replaces it."""

import ctypes
from dataclasses import dataclass

import numpy as np

from nextquery.inference.context import ContextBatch, Floats
from nextquery.inference.copying import CopySources, attend
from nextquery.inference.decoder import Ids, Prediction, SearchStart
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.output import OutputLayer
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import UNKNOWN, Vocabulary


@dataclass(frozen=True, eq=False)
class HREDMemory:
    """What HRED remembers of a session."""

    session_state: Floats
    """(d_s,): `s_m` of Eq. 5."""
    word_states: tuple[Floats, ...] = ()
    """With copying: the word states of each query (words, d_h), without the end of the query."""


class HREDBatch:
    """What the decoder reads of the contexts of a batch, computed once."""

    def __init__(self, network: HREDNetwork, batch: ContextBatch[HREDMemory]) -> None:
        self.contexts = len(batch.contexts)
        self.session_states = np.stack([memory.session_state for memory in batch.memories])
        self.session_inputs = network.session_inputs(self.session_states)
        self.sources = (
            CopySources.of(network.weights, network.products, batch)
            if network.config.copying
            else None
        )
        self.record: ctypes.Structure | None = None
        """The same for the compiled kernels, made when they need it."""


@dataclass(frozen=True, eq=False)
class HREDState:
    """The state of the decoder: one row per prefix, rows of one context together."""

    batch: HREDBatch
    hidden: Floats
    """(rows, d_h): `d_{n-1}` of Eq. 8."""
    previous: Floats | None
    """(rows, d_e): `E_o w_{n-1}` of Eq. 10; None before the first word."""
    contexts: Ids
    """(rows,): the context of each row, ascending."""

    @classmethod
    def start(cls, network: HREDNetwork, contexts: ContextBatch[HREDMemory]) -> "HREDState":
        """The empty prefix of every context (Eq. 7)."""
        batch = HREDBatch(network, contexts)
        hidden = network.start_decoder(batch.session_states, batch.session_inputs)
        return cls(batch, hidden, None, np.arange(batch.contexts))

    def __len__(self) -> int:
        return len(self.contexts)

    def take(self, rows: Ids | slice) -> "HREDState":
        """Some rows, in the given order."""
        previous = None if self.previous is None else self.previous[rows]
        return HREDState(self.batch, self.hidden[rows], previous, self.contexts[rows])


class ArrayDecoder:
    """HRED's decoder with NumPy."""

    def __init__(self, network: HREDNetwork) -> None:
        self._network = network
        self._output = OutputLayer(network.output_matrix, network.weights.get("output_bias"))

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that it predicts."""
        return self._network.vocabulary

    def start(self, batch: ContextBatch[HREDMemory]) -> HREDState:
        """The empty prefix of every context (Eq. 7)."""
        return HREDState.start(self._network, batch)

    def select(self, state: HREDState, rows: Ids | slice) -> HREDState:
        """Some rows of a state; a row may be repeated."""
        return state.take(rows)

    def advance(self, state: HREDState, parents: Ids, words: Ids) -> HREDState:
        """Prefixes with one more word each (Eq. 8); words outside V are read as unknown."""
        network, contexts = self._network, state.contexts[parents]
        read = np.where(words < len(network.vocabulary), words, UNKNOWN)
        session = state.batch.session_inputs.take(contexts)
        hidden = network.advance_decoder(state.hidden[parents], read, session)
        return HREDState(state.batch, hidden, network.previous_words(read), contexts)

    def predict(self, state: HREDState) -> Prediction:
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

"""HRED's decoder in NumPy: what the compiled decoder must reproduce, and what replaces it."""

import ctypes
from dataclasses import dataclass

import numpy as np

from nextquery.inference.context import ContextBatch, Floats
from nextquery.inference.decoder import Ids, Prediction, SearchStart
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.output import CopyTable, OutputLayer, Pointer
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.weights import AGES
from nextquery.text.vocabulary import UNKNOWN, Vocabulary

LEAST_ATTENTION = 1e-30
"""Attention below this counts as this: its logarithm must stay finite."""


@dataclass(frozen=True, eq=False)
class HREDMemory:
    """What HRED remembers of a session."""

    session_state: Floats
    """(d_s,): `s_m` of Eq. 5."""
    word_states: tuple[Floats, ...] = ()
    """With copying: the word states of each query (words, d_h), without the end of the query."""


@dataclass(frozen=True, eq=False)
class CopySources:
    """The words of all contexts that can be copied; end-of-query symbols are left out."""

    first: Ids
    """(contexts + 1,): where the sources of each context begin."""
    states: Floats
    """(sources, d_h): `h_j`."""
    keys: Floats
    """(sources, d_h): `A_k h_j / sqrt(d_h)`."""
    age_scores: Floats
    """(sources,): `r_age(j)`."""
    columns: Ids
    """(sources,): the column of each among the distinct words of its context."""
    table: CopyTable
    """The distinct words of each context."""

    @classmethod
    def of(cls, network: HREDNetwork, batch: ContextBatch[HREDMemory]) -> "CopySources | None":
        """Those of a batch; None if there is nothing to copy."""
        counts = [len(context.copied_words) for context in batch.contexts]
        if not network.config.copying or not any(counts):
            return None
        word_ids = [
            [vocabulary.id(word) for word in context.copied_words]
            for context, vocabulary in zip(batch.contexts, batch.vocabularies, strict=True)
        ]
        distinct = [vocabulary.distinct for vocabulary in batch.vocabularies]
        outside = max(len(vocabulary.outside) for vocabulary in batch.vocabularies)
        states = np.concatenate([part for memory in batch.memories for part in memory.word_states])
        ages = np.array([age for memory in batch.memories for age in _ages(memory)])
        scale = np.float32(network.config.query_size**-0.5)
        return cls(
            first=np.cumsum([0, *counts]),
            states=states,
            keys=network.products.times("copying.key.weight", states) * scale,
            age_scores=network.weights["copying.age"][np.clip(ages - 1, 0, AGES - 1)],
            columns=np.concatenate(
                [np.searchsorted(d, ids) for d, ids in zip(distinct, word_ids, strict=True)]
            ).astype(np.int64),
            table=CopyTable.of(distinct, len(network.vocabulary) + outside),
        )


def _ages(memory: HREDMemory) -> list[int]:
    """How many queries back each word is: 1 for those of the last query."""
    newest_first = enumerate(reversed(memory.word_states), start=1)
    return [age for age, words in newest_first for _ in words][::-1]


class HREDBatch:
    """What the decoder reads of the contexts of a batch, computed once."""

    def __init__(self, network: HREDNetwork, batch: ContextBatch[HREDMemory]) -> None:
        self.contexts = len(batch.contexts)
        self.session_states = np.stack([memory.session_state for memory in batch.memories])
        self.session_inputs = network.session_inputs(self.session_states)
        self.sources = CopySources.of(network, batch)
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
        attended, pointer = self._attend(sources, state)
        return self._output.predict(omega + attended, pointer)

    def steps(self, start: SearchStart, config: DecodeConfig) -> None:
        """There are no faster ones than `search.ArraySteps`."""

    def _attend(self, sources: CopySources, state: HREDState) -> tuple[Floats, Pointer]:
        """What attention adds to omega (rows, d_e), and the copied part of the mixture."""
        weights, rows = self._network.weights, len(state)
        previous = state.previous
        if previous is None:
            previous = np.zeros((rows, self._network.config.embedding_size), dtype=np.float32)
        here = np.concatenate([state.hidden, previous], axis=1)
        queries = here @ weights["copying.query.weight"].T
        seen = np.zeros_like(state.hidden)  # c_n
        attention_by_word = np.zeros((sources.table.most, rows), dtype=np.float32)
        for context in np.unique(state.contexts).tolist():
            some = slice(*np.searchsorted(state.contexts, [context, context + 1]))
            part = slice(sources.first[context], sources.first[context + 1])
            if part.start == part.stop:
                continue
            attention = _softmax(queries[some] @ sources.keys[part].T + sources.age_scores[part])
            seen[some] = attention @ sources.states[part]
            np.add.at(attention_by_word[:, some], sources.columns[part], attention.T)
        gate = np.concatenate([here, seen], axis=1) @ weights["copying.gate.weight"][0]
        gate += weights["copying.gate.bias"]
        nothing = np.diff(sources.first)[state.contexts] == 0
        gate[nothing] = -np.inf
        log_attention = np.log(np.maximum(attention_by_word.T, LEAST_ATTENTION))
        pointer = Pointer(
            table=sources.table,
            contexts=state.contexts,
            log_copied=_log_sigmoid(gate)[:, None] + log_attention,
            log_generated=_log_sigmoid(-gate),
        )
        return np.asarray(seen @ weights["copying.output.weight"].T), pointer


def _softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _log_sigmoid(values: Floats) -> Floats:
    return np.asarray(-np.logaddexp(np.float32(0.0), -values), dtype=np.float32)

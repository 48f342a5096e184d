"""A trained HRED as a `NeuralModel`: reads sessions, gives decoders, explains by update gates."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from nextquery.artifacts import Artifact
from nextquery.inference.context import Floats
from nextquery.inference.decoder import Decoder
from nextquery.inference.hred_network import (
    ArrayDecoder,
    DecoderState,
    HREDMemory,
    HREDNetwork,
    sigmoid,
    words_by_step,
)
from nextquery.inference.native_decoder import NativeDecoder, PackedHRED
from nextquery.inference.settings import Mode
from nextquery.inference.weights import read_network, weight_shapes
from nextquery.model.settings import KIND, ModelConfig
from nextquery.normalise import normalise_query
from nextquery.text.vocabulary import UNKNOWN

LEAST_PROBABILITY = 1e-6
"""A usefulness below this counts as this: its logarithm must stay finite."""


class HREDModel:
    """A trained HRED; the decoder is compiled unless the network is `compiled=False`."""

    def __init__(self, network: HREDNetwork) -> None:
        self.network = network
        self.vocabulary = network.vocabulary
        self.copies = network.config.copying
        self.query_size = network.config.query_size
        self.usefulness_head = HREDUsefulness(network) if network.config.usefulness else None

    @classmethod
    def from_pretrained(cls, folder: Path | str | Artifact) -> "HREDModel":
        """Open a model folder; the weights stay in the file."""
        network = read_network(folder, KIND, ModelConfig, weight_shapes, HREDNetwork)
        return cls(network)

    @cached_property
    def _packed(self) -> PackedHRED | None:
        library = self.network.library
        return None if library is None else PackedHRED(self.network, library)

    def decoder(self, mode: Mode) -> Decoder[DecoderState]:
        """The compiled decoder of a mode, or NumPy's, which is always exact."""
        packed = self._packed
        return ArrayDecoder(self.network) if packed is None else NativeDecoder(packed, mode)

    def word_vectors(self) -> Floats:
        """The output vectors of all words (V, d_e)."""
        return self.network.output_matrix

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The query vectors `q` (queries, d_h)."""
        return np.stack([states[-1] for states in self._encoded(queries)])

    def read_sessions(self, sessions: Sequence[Sequence[str]]) -> list[HREDMemory]:
        """The memory of each session; every distinct query is encoded once."""
        encoded = self._encoded_once(sessions)
        states, _ = self._session_steps(sessions, encoded)
        return [
            HREDMemory(state.copy(), self._word_states([encoded[query] for query in session]))
            for state, session in zip(states, sessions, strict=True)
        ]

    def extend_session(self, memory: HREDMemory, query: str) -> HREDMemory:
        """The memory after one more query (Eq. 4 and 5)."""
        [states] = self._encoded([query])
        after, _ = self.network.extend_session(memory.session_state[None], states[-1:])
        return HREDMemory(after[0], (*memory.word_states, *self._word_states([states])))

    def update_gates(self, sessions: Sequence[Sequence[str]]) -> list[Floats]:
        """The session update gates `u_m` of each query of each session: (queries, d_s)."""
        return self._session_steps(sessions, self._encoded_once(sessions))[1]

    def _session_steps(
        self, sessions: Sequence[Sequence[str]], encoded: Mapping[str, Floats]
    ) -> tuple[Floats, list[Floats]]:
        """Eq. 5 over all sessions: their last states (sessions, d_s) and the update gates."""
        states = np.repeat(self._start, len(sessions), axis=0)
        gates = [np.empty((len(session), states.shape[1]), np.float32) for session in sessions]
        for position in range(max(map(len, sessions), default=0)):
            rows = [row for row, session in enumerate(sessions) if position < len(session)]
            vectors = np.stack([encoded[sessions[row][position]][-1] for row in rows])
            states[rows], update = self.network.extend_session(states[rows], vectors)
            for row, gate in zip(rows, update, strict=True):
                gates[row][position] = gate
        return states, gates

    @cached_property
    def _start(self) -> Floats:
        """`s_0` (1, d_s)."""
        return self.network.start_session()

    def _encoded_once(self, sessions: Sequence[Sequence[str]]) -> dict[str, Floats]:
        """Each distinct query, encoded."""
        distinct = sorted({query for session in sessions for query in session})
        return dict(zip(distinct, self._encoded(distinct), strict=True))

    def _word_states(self, encoded: Sequence[Floats]) -> tuple[Floats, ...]:
        """What copying needs of encoded queries: the states without the end of the query."""
        return tuple(states[:-1].copy() for states in encoded) if self.copies else ()

    def _encoded(self, queries: Sequence[str]) -> list[Floats]:
        """Eq. 4: the states of each query (words + 1, d_h), of which the last is its vector."""
        outside: dict[str, int] = {}
        ids = [self.vocabulary.encode(query) for query in queries]
        if self.network.config.character_ngrams:
            # A word that the vocabulary lacks has an id from V on.
            for query, query_ids in zip(queries, ids, strict=True):
                for position, word in enumerate(query.split()):
                    if query_ids[position] == UNKNOWN:
                        number = outside.setdefault(word, len(outside))
                        query_ids[position] = len(self.vocabulary) + number
        return self.network.encode_queries(ids, tuple(outside))


class HREDUsefulness:
    """The usefulness head: a logistic regression on the decoder's state after the last word."""

    def __init__(self, network: HREDNetwork) -> None:
        self._network = network

    def probabilities(
        self, memories: Sequence[HREDMemory], queries: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | query, session) of the queries asked for in each session."""
        counts = [len(texts) for texts in queries]
        if not sum(counts):
            return [[] for _ in memories]
        vocabulary, weights = self._network.vocabulary, self._network.weights
        ids = [vocabulary.encode(normalise_query(text))[:-1] for texts in queries for text in texts]
        sessions = np.stack([memory.session_state for memory in memories])
        states = self._last_states(np.repeat(sessions, counts, axis=0), ids)
        odds = states @ weights["usefulness.weight"][0] + weights["usefulness.bias"]
        useful = np.maximum(sigmoid(odds), np.float32(LEAST_PROBABILITY)).tolist()
        return [useful[start:stop] for start, stop in pairwise(np.cumsum([0, *counts]).tolist())]

    def _last_states(self, session_states: Floats, queries: Sequence[Sequence[int]]) -> Floats:
        """`d_N` (queries, d_h): the decoder's state after the last word of each query."""
        order, steps = words_by_step(queries)
        ordered = session_states[order]
        inputs = self._network.session_inputs(ordered)
        states = self._network.start_decoder(ordered, inputs)
        for words in steps:
            active = np.arange(len(words))
            states[active] = self._network.advance_decoder(
                states[active], words, inputs.take(active)
            )
        last = np.empty_like(states)
        last[order] = states
        return last

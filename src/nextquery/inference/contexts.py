"""Sessions so far become session states, all at once or one more query at a time.

Knows the encoders of HRED and what copying needs of them; knows nothing of decoding. A state never
changes: `extend` gives a new one, so that a service can keep and share states freely; it owns its
numbers, so that it does not keep those of a whole batch in memory. What a state holds follows from
its `queries`, which is all that needs to be stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nextquery.model.hred import HRED
from nextquery.normalise import normalise_query

MOST_WORDS = 30
"""Of a longer query only the first words are read, as in training."""


@dataclass(frozen=True, eq=False)
class ContextState:
    """A session so far: its queries and what the model remembers of them."""

    queries: tuple[str, ...]
    """Normalised; a query without any word is no query."""
    session_state: Tensor
    """(d_s,): `s_m` of Eq. 5."""
    copied_words: tuple[str, ...] = ()
    """With copying: the words of all queries, in order."""
    copied_from: tuple[int, ...] = ()
    """With copying: the query that each of them stands in."""
    copied_states: tuple[Tensor, ...] = ()
    """With copying: the word states of each query (words, d_h), the end of query left out."""


class ContextEncoder:
    """Reads contexts with a trained model."""

    def __init__(self, model: HRED) -> None:
        self._model = model
        with torch.inference_mode():
            self._start = model.start_session()[0]

    @property
    def query_size(self) -> int:
        """Numbers in a query vector."""
        return self._model.config.query_size

    def start(self) -> ContextState:
        """The state of a session without any query."""
        return ContextState((), self._start)

    def encode(self, context: Sequence[str]) -> ContextState:
        """The state of one session."""
        return self.encode_many([context])[0]

    def extend(self, state: ContextState, query: str) -> ContextState:
        """The state after one more query; only that query is encoded."""
        text = normalise_query(query)
        return self._extend_many([state], [text])[0] if text else state

    def encode_many(self, contexts: Sequence[Sequence[str]]) -> list[ContextState]:
        """The states of many sessions, queries encoded together, each distinct one once."""
        texts = [[t for t in map(normalise_query, context) if t] for context in contexts]
        read = self._read(sorted({text for queries in texts for text in queries}))
        states = [self.start()] * len(texts)
        for position in range(max(map(len, texts), default=0)):
            here = [row for row, queries in enumerate(texts) if position < len(queries)]
            queries = [texts[row][position] for row in here]
            longer = self._step([states[row] for row in here], queries, read)
            for row, state in zip(here, longer, strict=True):
                states[row] = state
        return states

    def _extend_many(
        self, states: Sequence[ContextState], queries: Sequence[str]
    ) -> list[ContextState]:
        return self._step(states, queries, self._read(sorted(set(queries))))

    @torch.inference_mode()
    def _read(self, queries: Sequence[str]) -> dict[str, tuple[Tensor, Tensor]]:
        """Eq. 4: of each query its vector (d_h,) and its word states (words, d_h)."""
        if not queries:
            return {}
        encoded = [self.ids(query) for query in queries]
        lengths = torch.tensor([len(ids) for ids in encoded])
        words = torch.zeros((len(encoded), int(lengths.max())), dtype=torch.long)
        for row, ids in enumerate(encoded):
            words[row, : len(ids)] = torch.tensor(ids)
        vectors, states = self._model.encode_queries(words, lengths)
        return {
            query: (vectors[row], states[row, : len(encoded[row]) - 1].clone())
            for row, query in enumerate(queries)
        }

    def ids(self, query: str) -> list[int]:
        """The words of a query that are read, and the end of the query."""
        return self._model.vocabulary.encode(" ".join(query.split()[:MOST_WORDS]))

    def query_vectors(self, queries: Sequence[str]) -> Tensor:
        """The vectors `q` of normalised queries (queries, d_h)."""
        read = self._read(queries)
        return torch.stack([read[query][0] for query in queries])

    @torch.inference_mode()
    def _step(
        self,
        states: Sequence[ContextState],
        queries: Sequence[str],
        read: dict[str, tuple[Tensor, Tensor]],
    ) -> list[ContextState]:
        """Eq. 5 for many sessions, each with its next query."""
        before = torch.stack([state.session_state for state in states])
        vectors = torch.stack([read[query][0] for query in queries])
        after, _ = self._model.extend_session(before, vectors)
        return [
            self._longer(state, query, session_state.clone(), read[query][1])
            for state, query, session_state in zip(states, queries, after, strict=True)
        ]

    def _longer(
        self, state: ContextState, query: str, session_state: Tensor, word_states: Tensor
    ) -> ContextState:
        queries = (*state.queries, query)
        if self._model.copying is None:
            return ContextState(queries, session_state)
        words = query.split()[:MOST_WORDS]
        return ContextState(
            queries,
            session_state,
            (*state.copied_words, *words),
            (*state.copied_from, *[len(state.queries)] * len(words)),
            (*state.copied_states, word_states),
        )

"""Sessions so far become session states, all at once or one more query at a time.

Knows the encoders of HRED and what copying needs of them; knows nothing of decoding. A state never
changes: `extend` gives a new one, so that a service can keep and share states freely; it owns its
numbers, so that it does not keep those of a whole batch in memory. What a state holds follows from
its `queries`, which is all that needs to be stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from pydantic import ValidationError

from nextquery.errors import ArtifactError
from nextquery.inference.network.network import Network
from nextquery.inference.network.weights import Floats
from nextquery.model.settings import TrainConfig
from nextquery.normalise import normalise_query
from nextquery.text.vocabulary import UNKNOWN


@dataclass(frozen=True)
class ContextLimits:
    """How much of a session is read: no more than the model was trained on."""

    queries: int
    """Of a longer session only the last queries are read."""
    words: int
    """Of a longer query only the first words are read."""

    @classmethod
    def of_training(cls, train: TrainConfig) -> Self:
        """The longest context of a training session, whose last query is predicted."""
        return cls(train.max_queries - 1, train.max_words)

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Those of a model folder; one that does not say was trained with the defaults.

        >>> settings = {"train": {"max_queries": 6, "max_words": 8}}
        >>> ContextLimits.from_manifest({"settings": settings})
        ContextLimits(queries=5, words=8)
        """
        keys = ("max_queries", "max_words")
        try:
            train = manifest.get("settings", {}).get("train", {})
            chosen = {key: train[key] for key in keys if key in train}
            return cls.of_training(TrainConfig.model_validate(chosen))
        except (AttributeError, TypeError, ValidationError):
            raise ArtifactError(f"manifest.json: settings.train has no valid {keys}") from None


DEFAULT_LIMITS = ContextLimits.of_training(TrainConfig())


@dataclass(frozen=True, eq=False)
class ContextState:
    """A session so far: its queries and what the model remembers of them."""

    queries: tuple[str, ...]
    """Normalised, all of them; a query without any word is no query."""
    session_state: Floats
    """(d_s,): `s_m` of Eq. 5."""
    copied_words: tuple[str, ...] = ()
    """With copying: the words of all queries that were read, in order."""
    copied_from: tuple[int, ...] = ()
    """With copying: the query that each of them stands in."""
    copied_states: tuple[Floats, ...] = ()
    """With copying: the word states of each query (words, d_h), the end of query left out."""


class ContextEncoder:
    """Reads contexts with a trained model."""

    def __init__(self, model: Network, limits: ContextLimits = DEFAULT_LIMITS) -> None:
        self._model = model
        self.limits = limits
        self._start = model.start_session()[0]

    @property
    def query_size(self) -> int:
        """Numbers in a query vector."""
        return self._model.config.query_size + self._model.config.query_vectors

    def start(self) -> ContextState:
        """The state of a session without any query."""
        return ContextState((), self._start)

    def encode(self, context: Sequence[str]) -> ContextState:
        """The state of one session."""
        return self.encode_many([context])[0]

    def extend(self, state: ContextState, query: str) -> ContextState:
        """The state after one more query; only that query is encoded.

        A session at its limit is read again without its oldest query.
        """
        text = normalise_query(query)
        if not text:
            return state
        if len(state.queries) >= self.limits.queries:
            return self.encode((*state.queries, text))
        return self._extend_many([state], [text])[0]

    def encode_many(self, contexts: Sequence[Sequence[str]]) -> list[ContextState]:
        """The states of many sessions, queries encoded together, each distinct one once."""
        whole = [[t for t in map(normalise_query, context) if t] for context in contexts]
        texts = [queries[-self.limits.queries :] for queries in whole]
        read = self._read(sorted({text for queries in texts for text in queries}))
        states = [self.start()] * len(texts)
        for position in range(max(map(len, texts), default=0)):
            here = [row for row, queries in enumerate(texts) if position < len(queries)]
            queries = [texts[row][position] for row in here]
            longer = self._step([states[row] for row in here], queries, read)
            for row, state in zip(here, longer, strict=True):
                states[row] = state
        return [_with_unread(state, queries) for state, queries in zip(states, whole, strict=True)]

    def _extend_many(
        self, states: Sequence[ContextState], queries: Sequence[str]
    ) -> list[ContextState]:
        return self._step(states, queries, self._read(sorted(set(queries))))

    def _read(self, queries: Sequence[str]) -> dict[str, tuple[Floats, Floats]]:
        """Eq. 4: of each query what the session encoder reads, and its word states (words, d_h)."""
        if not queries:
            return {}
        outside: dict[str, int] = {}
        ids = [self._ids(query, outside) for query in queries]
        states = self._model.encode_queries(ids, tuple(outside))
        vectors = self._model.session_reads(np.stack([each[-1] for each in states]), queries)
        return {
            query: (vector, each[:-1].copy())
            for query, vector, each in zip(queries, vectors, states, strict=True)
        }

    def _ids(self, query: str, outside: dict[str, int]) -> list[int]:
        """The words of a query that are read, and the end of the query.

        A word that is known by its n-grams alone gets an id from V on, and a place in `outside`.
        """
        words, vocabulary = query.split()[: self.limits.words], self._model.vocabulary
        ids = vocabulary.encode(" ".join(words))
        if self._model.config.character_ngrams:
            for place, word in enumerate(words):
                if ids[place] == UNKNOWN:
                    ids[place] = len(vocabulary) + outside.setdefault(word, len(outside))
        return ids

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The vectors of normalised queries, `q` and any made elsewhere (queries, query_size)."""
        read = self._read(queries)
        return np.stack([read[query][0] for query in queries])

    def _step(
        self,
        states: Sequence[ContextState],
        queries: Sequence[str],
        read: dict[str, tuple[Floats, Floats]],
    ) -> list[ContextState]:
        """Eq. 5 for many sessions, each with its next query."""
        before = np.stack([state.session_state for state in states])
        vectors = np.stack([read[query][0] for query in queries])
        after, _ = self._model.extend_session(before, vectors)
        return [
            self._longer(state, query, session_state.copy(), read[query][1])
            for state, query, session_state in zip(states, queries, after, strict=True)
        ]

    def _longer(
        self, state: ContextState, query: str, session_state: Floats, word_states: Floats
    ) -> ContextState:
        queries = (*state.queries, query)
        if not self._model.config.copying:
            return ContextState(queries, session_state)
        words = query.split()[: self.limits.words]
        return ContextState(
            queries,
            session_state,
            (*state.copied_words, *words),
            (*state.copied_from, *[len(state.queries)] * len(words)),
            (*state.copied_states, word_states),
        )


def _with_unread(state: ContextState, queries: Sequence[str]) -> ContextState:
    """The state with the queries before those that were read."""
    unread = len(queries) - len(state.queries)
    if not unread:
        return state
    copied_from = tuple(query + unread for query in state.copied_from)
    return replace(state, queries=tuple(queries), copied_from=copied_from)

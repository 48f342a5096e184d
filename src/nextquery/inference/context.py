"""Contexts: sessions become session states, and the words that can be copied from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from nextquery.errors import ArtifactError
from nextquery.inference.network import Network
from nextquery.inference.weights import Floats
from nextquery.model.settings import TrainConfig
from nextquery.normalise import normalise_query
from nextquery.text.vocabulary import UNKNOWN, Vocabulary

Ids = NDArray[np.int64]


class SessionVocabulary:
    """The words of one context: those outside the vocabulary have ids from V on.

    `words` can be copied; `given` are words of a half-typed query, which may be unknown too.
    """

    def __init__(
        self, vocabulary: Vocabulary, words: Sequence[str], given: Sequence[str] = ()
    ) -> None:
        self._vocabulary = vocabulary
        self.outside: tuple[str, ...] = tuple(
            dict.fromkeys(word for word in (*words, *given) if word not in vocabulary)
        )
        self._ids = {word: len(vocabulary) + n for n, word in enumerate(self.outside)}
        self.distinct: tuple[int, ...] = tuple(sorted(set(map(self.id, words))))
        """The ids of all words that can be copied, each once, ascending."""

    def is_outside(self, word_id: int) -> bool:
        """Whether the vocabulary lacks the word."""
        return word_id >= len(self._vocabulary)

    def can_be_predicted(self, word_id: int) -> bool:
        """Whether the model can give the word a probability of its own."""
        return not self.is_outside(word_id) or word_id in self.distinct

    def id(self, word: str) -> int:
        """The id of a word, that of the unknown word if neither side knows it."""
        return self._ids.get(word, self._vocabulary.id(word))

    def word(self, word_id: int) -> str:
        """The word of an id."""
        known = self._vocabulary.words
        return known[word_id] if word_id < len(known) else self.outside[word_id - len(known)]

    def text(self, word_ids: Sequence[int]) -> str:
        """The words of some ids, joined."""
        known, outside = self._vocabulary.words, self.outside
        size = len(known)
        return " ".join([known[word] if word < size else outside[word - size] for word in word_ids])


@dataclass(frozen=True, eq=False)
class CopyTable:
    """The words that can be copied in each context of a batch, to be looked up in one list.

    The list has a key `context * width + word` for each of them, ascending, so that looking up
    costs its logarithm and nothing of the size (words asked for, own words) is ever made.
    """

    words: Ids
    """(total,): ids, each once and ascending in each context."""
    first: Ids
    """(contexts + 1,): where the words of each context begin."""
    keys: Ids
    """(total,): the keys of all contexts."""
    width: int
    """More than any id."""
    most: int
    """The largest number of words of one context."""

    @classmethod
    def of(cls, contexts: Sequence[Sequence[int]], width: int) -> "CopyTable":
        """From the ascending ids of each context."""
        counts = [len(ids) for ids in contexts]
        words = np.array([word for ids in contexts for word in ids], dtype=np.int64)
        keys = np.repeat(np.arange(len(contexts)), counts) * width + words
        return cls(words, np.cumsum([0, *counts]), keys, width, max(counts))

    def columns(self, contexts: Ids, words: Ids) -> Ids:
        """The columns of `words` among those of their contexts, -1 for a word not among them."""
        wanted = contexts * self.width + words
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, places - self.first[contexts], -1)


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
        return self._model.config.query_size

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

    def read_queries(self, state: ContextState) -> list[str]:
        """The queries of a session as far as the model reads them."""
        last = state.queries[-self.limits.queries :]
        return [" ".join(query.split()[: self.limits.words]) for query in last]

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
        vectors = np.stack([states_of_query[-1] for states_of_query in states])
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

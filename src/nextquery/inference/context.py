"""Contexts: sessions as the network reads them, and the words that can be copied from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from nextquery.errors import ArtifactError
from nextquery.model.settings import TrainConfig
from nextquery.normalise import normalise_query
from nextquery.text.vocabulary import Vocabulary

Floats = NDArray[np.float32]
Memory = TypeVar("Memory")
"""What a network remembers of a session: a recurrent state, a key-value cache, ..."""


class SessionVocabulary:
    """The words of one context: those outside the vocabulary have ids from V on.

    `words` can be copied; `typed` are words of a half-typed query, which may be unknown too.
    """

    def __init__(
        self, vocabulary: Vocabulary, words: Sequence[str], typed: Sequence[str] = ()
    ) -> None:
        self._vocabulary = vocabulary
        self.outside: tuple[str, ...] = tuple(
            dict.fromkeys(word for word in (*words, *typed) if word not in vocabulary)
        )
        self._ids = {word: len(vocabulary) + n for n, word in enumerate(self.outside)}
        self.distinct: tuple[int, ...] = tuple(sorted(set(map(self.id, words))))
        """The distinct ids of all words that can be copied, ascending."""

    @property
    def size(self) -> int:
        """The number of ids: those of the vocabulary and of the words that it lacks."""
        return len(self._vocabulary) + len(self.outside)

    def is_outside(self, word_id: int) -> bool:
        """Whether the vocabulary lacks the word."""
        return word_id >= len(self._vocabulary)

    def can_be_predicted(self, word_id: int) -> bool:
        """Whether the model gives this word, and not only the unknown word, a probability."""
        return not self.is_outside(word_id) or word_id in self.distinct

    def id(self, word: str) -> int:
        """The id of a word, or that of the unknown word."""
        return self._ids.get(word, self._vocabulary.id(word))

    def word(self, word_id: int) -> str:
        """The word of an id."""
        vocabulary_words = self._vocabulary.words
        return (
            vocabulary_words[word_id]
            if word_id < len(vocabulary_words)
            else self.outside[word_id - len(vocabulary_words)]
        )

    def text(self, word_ids: Sequence[int]) -> str:
        """The words of some ids, joined."""
        vocabulary_words, outside = self._vocabulary.words, self.outside
        size = len(vocabulary_words)
        return " ".join(
            [vocabulary_words[word] if word < size else outside[word - size] for word in word_ids]
        )


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
class ContextState(Generic[Memory]):
    """A session so far: its queries and what the network remembers of them."""

    queries: tuple[str, ...]
    """All of them, normalised; queries without a word are left out."""
    memory: Memory
    """Only the network that made it reads it."""
    copied_words: tuple[str, ...] = ()
    """With copying: the words of all queries that were read, in order."""


class SessionReader(Protocol[Memory]):
    """The part of a network that reads sessions; queries arrive normalised and cut to length."""

    @property
    def copies(self) -> bool:
        """Whether words of the session can be predicted that the vocabulary lacks."""
        ...

    @property
    def query_size(self) -> int:
        """Numbers in a query vector."""
        ...

    def read_sessions(self, sessions: Sequence[Sequence[str]]) -> list[Memory]:
        """The memory of each session, from its first query on; a session may be empty."""
        ...

    def extend_session(self, memory: Memory, query: str) -> Memory:
        """The memory after one more query; the given memory stays as it is."""
        ...

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The vectors of single queries (queries, query_size)."""
        ...


class ContextEncoder(Generic[Memory]):
    """Reads contexts with a network: normalises them and enforces the limits."""

    def __init__(
        self, model: SessionReader[Memory], limits: ContextLimits = DEFAULT_LIMITS
    ) -> None:
        self._model = model
        self.limits = limits
        self.query_size = model.query_size
        self._start = ContextState((), model.read_sessions([()])[0])

    def start(self) -> ContextState[Memory]:
        """The state of a session without any query."""
        return self._start

    def encode(self, context: Sequence[str]) -> ContextState[Memory]:
        """The state of one session."""
        return self.encode_many([context])[0]

    def encode_many(self, contexts: Sequence[Sequence[str]]) -> list[ContextState[Memory]]:
        """The states of many sessions, read together."""
        sessions = [self.normalised(context) for context in contexts]
        read = [self.read_part(session) for session in sessions]
        memories = self._model.read_sessions(read)
        return [
            ContextState(session, memory, self._copied(queries))
            for session, memory, queries in zip(sessions, memories, read, strict=True)
        ]

    def extend(self, state: ContextState[Memory], query: str) -> ContextState[Memory]:
        """The state after one more query; only that query is read.

        A session at its limit is read again without its oldest query.
        """
        text = normalise_query(query)
        if not text:
            return state
        queries = (*state.queries, text)
        if len(queries) > self.limits.queries:
            return self.encode(queries)
        read = self.read_part([text])
        memory = self._model.extend_session(state.memory, read[0])
        return ContextState(queries, memory, (*state.copied_words, *self._copied(read)))

    def normalised(self, context: Sequence[str]) -> tuple[str, ...]:
        """The queries of a session that have a word."""
        return tuple(text for text in map(normalise_query, context) if text)

    def read_part(self, queries: Sequence[str]) -> list[str]:
        """The part of a session's normalised queries that the network reads."""
        return self._cut(queries[-self.limits.queries :])

    def _cut(self, queries: Sequence[str]) -> list[str]:
        return [" ".join(query.split()[: self.limits.words]) for query in queries]

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The vectors of normalised queries (queries, query_size)."""
        return self._model.query_vectors(self._cut(queries))

    def _copied(self, queries: Sequence[str]) -> tuple[str, ...]:
        if not self._model.copies:
            return ()
        return tuple(word for query in queries for word in query.split())


class ContextBatch(Generic[Memory]):
    """Contexts that are decoded together, and the words of each."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        contexts: Sequence[ContextState[Memory]],
        typed: Sequence[str] = (),
    ) -> None:
        """`typed` are words of a half-typed query, which the vocabulary may lack."""
        self.contexts = contexts
        self.memories = [context.memory for context in contexts]
        self.vocabularies = [
            SessionVocabulary(vocabulary, context.copied_words, typed) for context in contexts
        ]

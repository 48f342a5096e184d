"""Sessions as numbers, in files that are mapped rather than loaded.

Encodes a split once, part by part, into flat arrays on disk; any session can then be read at
once, so that an epoch can be shuffled as a whole and resumed anywhere, and a log may be larger
than memory (8 bytes per session are held).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import ArtifactError
from nextquery.records import Session
from nextquery.text.vectors import NgramTable, running
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN, Vocabulary

_WORDS, _QUERIES, _SESSIONS, _IDS = "words.i32", "queries.i64", "sessions.i64", "ids.i64"


@dataclass(frozen=True)
class SessionLimits:
    """How long a session and a query may be."""

    queries: int
    """A longer session becomes consecutive sessions of at most this many queries."""
    words: int
    """Of a longer query only the first words are kept."""


@dataclass(frozen=True)
class EncodedSessions:
    """The queries of many sessions as word ids, each query closed by the end-of-query symbol.

    A word that the vocabulary of V symbols lacks has an id from V on, in the order in which such
    words appear in its session, so that a model that copies can tell them apart; with the n-grams
    of these words, in the order in which they appear in all sessions.
    """

    words: NDArray[np.int32]
    """The ids of all queries, one after the other."""
    query_starts: NDArray[np.int64]
    """Where each query starts in `words`; one more at the end."""
    session_starts: NDArray[np.int64]
    """Where each session starts in `query_starts`."""
    session_ends: NDArray[np.int64]
    """Where it ends; the query named is no longer part of it."""
    ids: NDArray[np.int64]
    """The session's id in the prepared data."""
    vocabulary_size: int
    useful: NDArray[np.float32] | None = None
    """How useful each query was, from 0 to 1, in the order of `query_starts`, if that is learnt."""
    outside: NgramTable | None = None
    """The character n-grams of the words from V on, if the model reads them; held in memory."""

    def __len__(self) -> int:
        return len(self.session_starts)

    def queries(self) -> NDArray[np.int64]:
        """The number of queries of each session."""
        return np.asarray(self.session_ends - self.session_starts)

    def lengths(self) -> NDArray[np.int64]:
        """The number of symbols of each session, end-of-query symbols included."""
        starts = self.query_starts[self.session_starts]
        return np.asarray(self.query_starts[self.session_ends] - starts)

    def windows(self, context: int) -> "EncodedSessions":
        """A session for every query: the query after at most `context` queries before it."""
        counts = self.queries()
        session = np.repeat(np.arange(len(self)), counts)
        query = running(counts) + self.session_starts[session]
        starts = np.maximum(query - context, self.session_starts[session])
        return replace(self, session_starts=starts, session_ends=query + 1, ids=self.ids[session])

    def sample(self, sessions: int, seed: int = 0) -> "EncodedSessions":
        """`count` sessions drawn at random, in their order; all of them if 0 or more than all."""
        if not 0 < sessions < len(self):
            return self
        drawn = np.random.default_rng(seed).choice(len(self), sessions, replace=False)
        drawn.sort()
        return replace(
            self,
            session_starts=self.session_starts[drawn],
            session_ends=self.session_ends[drawn],
            ids=self.ids[drawn],
        )

    def word_counts(self, block: int = 1 << 22) -> NDArray[np.int64]:
        """How often each of the V symbols occurs; words outside count as the unknown word."""
        counts = np.zeros(self.vocabulary_size, dtype=np.int64)
        for start in range(0, len(self.words), block):
            words = self.words[start : start + block]
            vocabulary_ids = np.where(words < self.vocabulary_size, words, UNKNOWN)
            counts += np.bincount(vocabulary_ids, minlength=self.vocabulary_size)
        return counts


def encode_sessions(
    sessions: Iterable[Session],
    vocabulary: Vocabulary,
    limits: SessionLimits,
    folder: Path,
    ngram_buckets: int = 0,
) -> EncodedSessions:
    """Write the sessions as flat arrays into `folder` and map them.

    With `ngram_buckets` the words outside the vocabulary keep their character n-grams.
    """
    folder.mkdir(parents=True, exist_ok=True)
    outside: dict[str, int] = {}
    queries, total = 0, 0
    with (
        (folder / _WORDS).open("wb") as words_file,
        (folder / _QUERIES).open("wb") as queries_file,
        (folder / _SESSIONS).open("wb") as sessions_file,
        (folder / _IDS).open("wb") as ids_file,
    ):
        pieces = (
            (session.id, session.queries[start : start + limits.queries])
            for session in sessions
            for start in range(0, len(session.queries), limits.queries)
        )
        for identifier, piece in pieces:
            numbers = outside if ngram_buckets else {}
            encoded = _encode(piece, vocabulary, limits.words, numbers)
            starts = total + np.cumsum([0, *(len(query) for query in encoded)])
            sessions_file.write(np.int64(queries).tobytes())
            ids_file.write(np.int64(identifier).tobytes())
            queries_file.write(starts[:-1].astype(np.int64).tobytes())
            words_file.write(np.concatenate(encoded, dtype=np.int32).tobytes())
            queries, total = queries + len(encoded), int(starts[-1])
        queries_file.write(np.int64(total).tobytes())
        sessions_file.write(np.int64(queries).tobytes())
    if not queries:
        raise ArtifactError("there are no sessions to learn from; prepare a larger log")
    bounds = np.memmap(folder / _SESSIONS, dtype=np.int64, mode="r")
    return EncodedSessions(
        words=np.memmap(folder / _WORDS, dtype=np.int32, mode="r"),
        query_starts=np.memmap(folder / _QUERIES, dtype=np.int64, mode="r"),
        session_starts=bounds[:-1],
        session_ends=bounds[1:],
        ids=np.memmap(folder / _IDS, dtype=np.int64, mode="r"),
        vocabulary_size=len(vocabulary),
        outside=NgramTable.of(outside, ngram_buckets) if ngram_buckets else None,
    )


def _encode(
    queries: tuple[str, ...], vocabulary: Vocabulary, limit: int, outside: dict[str, int]
) -> list[list[int]]:
    """The queries' ids; words outside the vocabulary are numbered from V on, as in `outside`."""
    encoded = []
    for query in queries:
        ids = []
        for word in query.split()[:limit]:
            word_id = vocabulary.id(word)
            if word_id == UNKNOWN:
                word_id = len(vocabulary) + outside.setdefault(word, len(outside))
            ids.append(word_id)
        encoded.append([*ids, END_OF_QUERY])
    return encoded

"""The acceptance model: how likely a visitor types a suggestion in the rest of the session.

A logistic regression on a dozen features of a candidate. It was learnt from the validation sessions
of a log: a candidate counts as accepted if the visitor typed it later in the session, in any word
order and form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nextquery.guard.quality import singular
from nextquery.guard.tables import Tables
from nextquery.inference.near_duplicates import content_words, folding_key
from nextquery.inference.search import FinishedQuery
from nextquery.normalise import cache_short_texts, normalise_query

Doubles = NDArray[np.float64]

FEATURES = (
    "log_likelihood",  # after the session
    "log_prior",  # without a session
    "known",  # K users typed it
    "log_likelihood_if_known",
    "frequent",  # one of the log's most frequent queries
    "shortened",  # has only words of the session
    "loses_topic",  # the same, and none of the rarer words of a query
    "keeps_words",  # has words of the session and new ones
    "unknown_keeps_words",  # the same, and fewer than K users typed it
    "unknown_new_words",  # has no word of the session, and fewer than K users typed it
    "overlap",  # share of the words that it has in common with the last query
    "words",
    "similarity",  # cosine of its vector and that of the last query
)


@dataclass(frozen=True)
class Acceptance:
    """The weights of a logistic regression."""

    weights: tuple[float, ...]
    """One per feature."""
    intercept: float

    def log_odds(self, features: Doubles) -> Doubles:
        """The log-odds (candidates,) that each candidate is typed later in the session."""
        return np.asarray(features @ np.array(self.weights) + self.intercept)


DEFAULT = Acceptance(
    (0.27, 0.01, 2.84, 0.59, 0.11, -0.48, -0.25, -1.32, -0.84, -2.28, 1.50, 0.15, 0.39), -3.31
)
"""Learnt from 233,486 candidates of HRED for 6,000 contexts of AOL's validation sessions, 875 of
which were accepted."""


@cache_short_texts(entries=4096, longest=100)
def terms_of(text: str) -> frozenset[str]:
    """The words of a text that carry meaning, in the singular."""
    return frozenset(folding_key(normalise_query(text)))


@dataclass(frozen=True)
class SessionWords:
    """The words of a session, in the singular."""

    typed: tuple[frozenset[str], ...]
    """The terms of each query."""
    words: frozenset[str]
    """The content words of all queries."""
    topics: tuple[frozenset[str], ...]
    """Of each query the rarer half of its content words: without them it is another query."""

    @classmethod
    def read(cls, session: Sequence[str], occurrences: Callable[[str], int]) -> Self:
        """The words of normalised queries; `occurrences` says how often people type a word."""
        queries = [content_words(query) for query in session]
        topics = []
        for words in queries:
            rarest = sorted(words, key=occurrences)[: ceil(len(words) / 2)]
            topics.append(frozenset(map(singular, rarest)))
        every = frozenset(singular(word) for words in queries for word in words)
        return cls(tuple(map(terms_of, session)), every, tuple(topics))

    @cached_property
    def terms(self) -> frozenset[str]:
        """The terms of all queries."""
        return frozenset[str]().union(*self.typed)

    def keeps_a_topic(self, text: str) -> bool:
        """Whether a text has a word of the topic of any query."""
        words = set(map(singular, content_words(text)))
        return any(words & topic for topic in self.topics)

    def keeps_a_word(self, text: str) -> bool:
        """Whether a text has a content word of the session."""
        return any(singular(word) in self.words for word in content_words(text))


def candidate_features(
    queries: Sequence[FinishedQuery],
    session: SessionWords,
    tables: Tables,
    frequent: Collection[str],
) -> Doubles:
    """The features (candidates, features) of candidates after a session that is not empty.

    `similarity` is 0: it needs the model, and is asked for only where it can matter.
    """
    last = session.typed[-1]
    rows = []
    for query in queries:
        terms, known = terms_of(query.text), query.text in tables.queries
        shortened = terms <= session.terms
        kept = session.keeps_a_word(query.text)
        keeps_words = kept and not shortened
        rows.append(
            (
                query.log_likelihood,
                query.log_prior or 0.0,
                known,
                query.log_likelihood * known,
                query.text in frequent,
                shortened,
                shortened and not session.keeps_a_topic(query.text),
                keeps_words,
                keeps_words and not known,
                not kept and not shortened and not known,
                len(terms & last) / max(1, len(terms | last)),
                query.text.count(" ") + 1,
                0.0,
            )
        )
    return np.array(rows, dtype=np.float64).reshape(-1, len(FEATURES))

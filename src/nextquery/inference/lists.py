"""Ranking of lists: specificity, diversity, and the kind of each suggestion."""

import heapq
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import ceil
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from nextquery.guard.guard import Guard
from nextquery.guard.quality import singular
from nextquery.guard.tables import Tables
from nextquery.inference.near_duplicates import content_words, fold, folding_key
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import KNOWN_BONUS, DecodeConfig
from nextquery.inference.weights import Floats
from nextquery.normalise import cache_short_texts, normalise_query
from nextquery.records import ScoredQuery, Suggestion

Group = Literal["refine", "related", "next step"]


class Relation(StrEnum):
    """What a suggestion does to the terms of the last query."""

    SAME = "same"
    ADDS = "adds"
    DROPS = "drops"
    REPLACES = "replaces"
    NEW = "new"

    @property
    def horizontal(self) -> bool:
        """Whether terms are only added or only dropped."""
        return self in (Relation.ADDS, Relation.DROPS)


GROUPS: dict[Relation, Group] = {
    Relation.ADDS: "refine",
    Relation.SAME: "related",
    Relation.DROPS: "related",
    Relation.REPLACES: "related",
    Relation.NEW: "next step",
}
"""Under which heading a suggestion is shown."""


def relation(last_query: str, suggestion: str) -> Relation:
    """What a suggestion does to the terms of the last query.

    >>> [str(relation("paris hotels", text)) for text in ("cheap hotel in paris", "paris")]
    ['adds', 'drops']
    >>> [str(relation("paris hotels", text)) for text in ("rome hotels", "louvre", "hotel paris")]
    ['replaces', 'new', 'same']
    """
    before, after = _terms(last_query), _terms(suggestion)
    if not before & after:
        return Relation.NEW
    if before == after:
        return Relation.SAME
    if before < after:
        return Relation.ADDS
    return Relation.DROPS if after < before else Relation.REPLACES


@cache_short_texts(entries=4096, longest=100)
def _terms(text: str) -> frozenset[str]:
    return frozenset(folding_key(normalise_query(text)))


def group(context: Sequence[str], suggestion: str) -> Group:
    """The heading of a suggestion in a session: `refine`, `related` or `next step`.

    >>> group(["louvre", "paris hotels"], "cheap paris hotels")
    'refine'
    >>> group([], "paris")
    'next step'
    """
    return GROUPS[relation(context[-1] if context else "", suggestion)]


FREQUENT = 100
"""The most frequent queries of a log are shown only where a session makes them likelier."""
STRONG_LIFT = 3.0
"""A session makes a query much likelier: by a factor of e to this power."""
WITHOUT_NEW_WORDS = 0.4
"""This share of a list may only drop or rearrange words of the session; more come last."""
FREQUENT_LOG_LIKELIHOOD = -4.5
"""A frequent query is shown where the session makes it likelier, and at least as likely as this (1
in 90). Likelihood tells better than lift which of them are typed: of 548 that were, within the rest
of 6,000 AOL sessions, this finds 243 with 1.2 places per list, a lift of 1 alone 256 with 2.7."""


def most_frequent(tables: Tables) -> frozenset[str]:
    """The most frequent queries of a log."""
    items = ((-count, text) for text, (count,) in tables.queries.iteritems())
    return frozenset(text for _, text in heapq.nsmallest(FREQUENT, items))


class ListGate:
    """Chooses the queries of a ranked list that are worth a place.

    Texts that do not read like queries are refused before, while they are written (`Guard.flaw`).
    Here it is decided whether a query is related to the session, and lists of shortened queries and
    of globally popular ones are avoided. A place stays empty rather than being filled with junk.
    """

    def __init__(self, guard: Guard) -> None:
        self._tables = guard.tables
        self.exists = guard.judges_text
        """Models of earlier versions do not have the tables."""

    @cached_property
    def frequent(self) -> frozenset[str]:
        """The most frequent queries of the log."""
        return most_frequent(self._tables)

    def select(
        self,
        ranked: Iterable[FinishedQuery],
        session: Sequence[str],
        n: int,
        config: DecodeConfig,
    ) -> list[FinishedQuery]:
        """The queries of a ranked list that are shown after a session, for a list of `n`.

        What only drops or rearranges words beyond its share, or drops the topic, comes last.
        """
        if not session:
            return list(ranked)
        typed = {_terms(query) for query in session}
        session_terms = frozenset[str]().union(*typed)
        words = SessionWords.read(session, self._occurrences)
        shortened = ceil(n * WITHOUT_NEW_WORDS)
        chosen, last = [], []
        for query in ranked:
            terms = _terms(query.text)
            lift = query.log_likelihood - (query.log_prior or 0.0)
            if terms in typed:
                continue
            if query.text in self.frequent:
                if lift <= 0.0 or query.log_likelihood < FREQUENT_LOG_LIKELIHOOD:
                    continue
            elif terms <= session_terms:
                if not shortened or not words.keeps_a_topic(query.text):
                    last.append(query)
                    continue
                shortened -= 1
            elif not self._related(query.text, words, lift):
                continue
            chosen.append(query)
        return appended(chosen, last, config)

    def _occurrences(self, word: str) -> int:
        typed = self._tables.typed_text
        return typed.occurrences(word) if typed is not None else 0

    def _related(self, text: str, session: "SessionWords", lift: float) -> bool:
        """Whether a text with new words belongs to what the session is about.

        It must keep the topic of a query, and K users must have typed each new word together with
        the rarest word that it keeps; a word of fewer than K users says nothing. A query without
        any word of the session must be known, and the session must make it much likelier.
        """
        words = content_words(text)
        kept = [word for word in words if singular(word) in session.every]
        if not kept:
            return text in self._tables.queries and lift >= STRONG_LIFT
        known = [word for word in kept if self._occurrences(word)]
        if not known or not session.keeps_a_topic(text):
            return False
        if text in self._tables.queries:
            return True
        typed = self._tables.typed_text
        assert typed is not None
        rarest = min(known, key=self._occurrences)
        new = (word for word in words if singular(word) not in session.every)
        return all(typed.typed_together(word, rarest) for word in new)


@dataclass(frozen=True)
class SessionWords:
    """The content words of a session, in the singular."""

    every: frozenset[str]
    topics: tuple[frozenset[str], ...]
    """Of each query the rarer half of its words: without them it is another query."""

    @classmethod
    def read(cls, session: Sequence[str], occurrences: Callable[[str], int]) -> Self:
        """The words of normalised queries; `occurrences` says how often people type a word."""
        queries = [content_words(query) for query in session]
        topics = []
        for words in queries:
            rarest = sorted(words, key=occurrences)[: ceil(len(words) / 2)]
            topics.append(frozenset(map(singular, rarest)))
        every = frozenset(singular(word) for words in queries for word in words)
        return cls(every, tuple(topics))

    def keeps_a_topic(self, text: str) -> bool:
        """Whether a text has a word of the topic of any query."""
        words = set(map(singular, content_words(text)))
        return any(words & topic for topic in self.topics)


_KEPT = 65_536

BELOW = 1e-6
"""What is appended to a list is valued this much below its last, so that no tie changes it."""


class Priors:
    """The log-likelihood of queries without a session, kept for known ones that were needed last.

    It does not depend on the session, so that much of a list is known from earlier ones. Only
    queries that K users typed are kept: a list of new ones that came sooner than others would tell
    that somebody has just had it. Several threads may ask at once: at worst a prior is computed
    twice.
    """

    def __init__(
        self,
        score: Callable[[Sequence[str]], Sequence[ScoredQuery]],
        words: int,
        known: Container[str],
    ) -> None:
        self._score = score
        self._known = known
        self._unknown = math.log(words)
        self._kept: OrderedDict[str, float] = OrderedDict()
        self._keeping = threading.Lock()

    def of(self, texts: Iterable[str]) -> dict[str, float]:
        """The prior of each text."""
        wanted = dict.fromkeys(texts)
        priors = {text: prior for text in wanted if (prior := self._kept.get(text)) is not None}
        missing = [text for text in wanted if text not in priors]
        if missing:
            new = {query.text: self._prior(query) for query in self._score(missing)}
            priors |= new
            self._keep(new)
        return priors

    def _keep(self, new: dict[str, float]) -> None:
        with self._keeping:
            self._kept.update((text, prior) for text, prior in new.items() if text in self._known)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def _prior(self, scored: ScoredQuery) -> float:
        return scored.log_likelihood - self._unknown * len(scored.unknown)


def rank(
    queries: Iterable[FinishedQuery],
    config: DecodeConfig,
    priors: Mapping[str, float],
    known: Container[str],
) -> list[FinishedQuery]:
    """The queries by their value, highest first, ties by text; priors may be left out at 0."""
    preferred = KNOWN_BONUS if config.known == "prefer" else 0.0
    adjusted = []
    for query in queries:
        prior = priors.get(query.text)
        bonus = preferred if preferred and query.text in known else 0.0
        bonus -= config.specificity * (prior or 0.0)
        adjusted.append(replace(query, log_prior=prior, bonus=bonus))
    normalised = config.length_normalised
    return sorted(adjusted, key=lambda query: (-query.value(normalised), query.text))


def appended(
    first: Sequence[FinishedQuery], more: Sequence[FinishedQuery], config: DecodeConfig
) -> list[FinishedQuery]:
    """Both ranked lists one after the other, what is in both once; the second is valued below."""
    texts = {query.text for query in first}
    rest = [query for query in more if query.text not in texts]
    if not first or not rest:
        return [*first, *rest]
    normalised = config.length_normalised
    gap = rest[0].value(normalised) - first[-1].value(normalised)
    above = max(0.0, gap + BELOW)
    lowered = (
        replace(query, bonus=query.bonus - above * (query.symbols if normalised else 1))
        for query in rest
    )
    return [*first, *lowered]


Doubles = NDArray[np.float64]


def diversify(values: Doubles, vectors: Doubles, count: int, diversity: float) -> list[int]:
    """The places of `count` entries in the order chosen; `values` best first, vectors (n, d)."""
    relevance = _scaled(values)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, 1e-12)
    likeness = unit @ unit.T
    chosen: list[int] = []
    nearest = np.zeros(len(values))
    while len(chosen) < min(count, len(values)):
        marginal = (1.0 - diversity) * relevance - diversity * nearest
        marginal[chosen] = -np.inf
        best = int(np.argmax(marginal))  # the first of equals: the more likely one
        nearest = likeness[best] if not chosen else np.maximum(nearest, likeness[best])
        chosen.append(best)
    return chosen


def _scaled(values: Doubles) -> Doubles:
    if len(values) == 0 or values.max() == values.min():
        return np.ones_like(values)
    return np.asarray((values - values.min()) / (values.max() - values.min()))


def choose(
    queries: Sequence[FinishedQuery],
    n: int,
    config: DecodeConfig,
    source: Callable[[str], str],
    vectors: Callable[[Sequence[str]], Floats],
) -> list[Suggestion]:
    """At most `n` of the ranked queries; `source` says where one comes from, `vectors` gives
    their vectors (n, d)."""
    if config.fold:
        queries = [
            queries[index] for index in fold((query.text for query in queries), config.language)
        ]
    if config.diversity == 0.0 or len(queries) < 2:
        return [_suggestion(query, config, source(query.text)) for query in queries[:n]]
    shown = [_suggestion(query, config, source(query.text)) for query in queries]
    values = np.array([suggestion.score for suggestion in shown])
    points = vectors([suggestion.text for suggestion in shown]).astype(np.float64)
    return [shown[index] for index in diversify(values, points, n, config.diversity)]


def _suggestion(query: FinishedQuery, config: DecodeConfig, source: str) -> Suggestion:
    """With its likelihoods where the list was made specific."""
    specific = query.log_prior is not None
    return Suggestion(
        query.text,
        query.value(config.length_normalised),
        source,
        query.log_likelihood if specific else None,
        query.log_prior,
        query.usefulness,
    )

"""The list gate: which of the ranked queries are shown after a session, and in which order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

import numpy as np

from nextquery.guard.guard import Guard
from nextquery.guard.tables import Tables
from nextquery.inference.acceptance import (
    DEFAULT,
    FEATURES,
    Doubles,
    SessionWords,
    candidate_features,
    terms_of,
)
from nextquery.inference.lists import descending
from nextquery.inference.near_duplicates import fold
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import KNOWN_BONUS, SPECIFICITY, DecodeConfig
from nextquery.inference.weights import Floats

FREQUENT = 100
"""How many queries count as the most frequent of a log."""
KNOWN_PER_FREQUENT = 20
"""At most one in 20 known queries counts as frequent: a small log has few others."""
FIRST_PLACES = 5
"""What most sites show; the limits below are for these places."""
MOST_SHORTENED = 2
"""At most this many of the first places go to queries with words of the session only."""
ACCEPTED = -6.5
"""The log-odds from which on a query is shown."""
FREQUENT_LIKELY = -4.0
"""The log-likelihood from which on a frequent query is shown in the first places: most are typed
often and useful seldom. The likelihood is corrected by how much more often the query is typed than
the model expects: networks that predict equally well differ in that by a factor of 2."""
LIKELIER = 2.0
"""What the session must add to the log-likelihood of a query that has none of its words."""


def most_frequent(tables: Tables, most: int = FREQUENT) -> frozenset[str]:
    """The most frequent queries of a log."""
    items = ((-count, text) for text, (count,) in tables.queries.iteritems())
    return frozenset(text for _, text in heapq.nsmallest(most, items))


SIMILARITY = FEATURES.index("similarity")
KINDS = ("frequent", "shortened", "loses_topic", "keeps_words")
Vectors = Callable[[Sequence[str]], Floats]


@dataclass(frozen=True)
class Candidate:
    """A query that may be shown."""

    query: FinishedQuery
    log_odds: float
    """That it is typed later in the session."""
    called_for: bool
    """A frequent query: whether the session makes it likelier, and likely enough. Any other:
    whether it has a word of the session, or the session makes it likelier by `LIKELIER`."""
    shortened: bool
    loses_topic: bool


class ListGate:
    """Orders candidates by the acceptance model and leaves out what is hardly ever accepted.

    Texts that do not read like queries are refused before, while they are written (`Guard.flaw`).
    A place stays empty rather than being filled with what is unlikely to help.
    """

    def __init__(self, guard: Guard, vectors: Vectors, specificity: float = SPECIFICITY) -> None:
        """`vectors` gives those of queries, `specificity` is the model's default."""
        self._tables = guard.tables
        self._vectors = vectors
        self._specificity = specificity
        self._acceptance = DEFAULT
        self.exists = guard.judges_text
        """Models of earlier versions do not have the tables."""

    @cached_property
    def frequent(self) -> frozenset[str]:
        """The most frequent queries of the log, fewer on a small one."""
        most = min(FREQUENT, len(self._tables.queries) // KNOWN_PER_FREQUENT)
        return most_frequent(self._tables, most)

    def select(
        self,
        ranked: Sequence[FinishedQuery],
        session: Sequence[str],
        config: DecodeConfig,
        related: Collection[str] = (),
        priors: Mapping[str, float] | None = None,
    ) -> list[FinishedQuery]:
        """The queries that are shown after a session, best first; each has its prior.

        `related` are queries that belong to the session by other evidence, e.g. because people
        typed them after its last one: for these it is not asked again. `priors` are those of a
        blend's trained model for frequent queries.
        """
        if not session:
            return list(ranked)
        words = SessionWords.read(session, self._occurrences)
        new = [query for query in ranked if terms_of(query.text) not in words.typed]
        if config.fold:
            new = [new[index] for index in fold((query.text for query in new), config.language)]
        if not new:
            return []
        features = candidate_features(new, words, self._tables, self.frequent)
        # Vectors take longest: only of candidates that the highest similarity could let pass.
        highest = self._acceptance.log_odds(features) + abs(self._acceptance.weights[SIMILARITY])
        possible = [
            index
            for index, query in enumerate(new)
            if highest[index] >= ACCEPTED or query.text in related
        ]
        if not possible:
            return []
        new, features = [new[index] for index in possible], features[possible]
        features[:, SIMILARITY] = self._similarity(session[-1], new)
        odds = self._acceptance.log_odds(features)
        candidates = [
            self._candidate(query, chance, row, related, priors or {})
            for query, chance, row in zip(new, odds.tolist(), features, strict=True)
            if chance >= ACCEPTED or query.text in related
        ]
        if not config.length_normalised:
            candidates = self._ordered(candidates)
        return descending([candidate.query for candidate in placed(candidates)], config)

    def _candidate(
        self,
        query: FinishedQuery,
        log_odds: float,
        features: Doubles,
        related: Collection[str],
        priors: Mapping[str, float],
    ) -> Candidate:
        """A candidate with its kind, which is among its features."""
        frequent, shortened, loses_topic, keeps_words = (
            bool(features[FEATURES.index(kind)]) for kind in KINDS
        )
        prior = priors.get(query.text, query.log_prior or 0.0)
        lift = query.log_likelihood - prior
        if frequent:
            log_share = self._tables.log_share(query.text)
            corrected = lift + (prior if log_share is None else log_share)
            called_for = lift > 0 and corrected >= FREQUENT_LIKELY
        else:
            called_for = shortened or keeps_words or lift > LIKELIER or query.text in related
        return Candidate(query, log_odds, called_for, shortened, loses_topic)

    def _similarity(self, last: str, queries: Sequence[FinishedQuery]) -> list[float]:
        """The cosine of each query's vector and that of the last query of the session."""
        vectors = self._vectors([last, *(query.text for query in queries)])
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        similarity: list[float] = (unit[1:] @ unit[0]).tolist()
        return similarity

    def _ordered(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """The candidates by their log-odds, highest first, ties by text.

        Settings other than the default ones move a query as far as they would without the gate.
        """
        valued = []
        for candidate in candidates:
            query = candidate.query
            usual = KNOWN_BONUS * (query.text in self._tables.queries)
            usual -= self._specificity * (query.log_prior or 0.0)
            value = candidate.log_odds + query.bonus - usual
            changed = replace(query, bonus=value - query.log_likelihood)
            valued.append((-value, query.text, replace(candidate, query=changed)))
        return [candidate for _, _, candidate in sorted(valued, key=itemgetter(0, 1))]

    def _occurrences(self, word: str) -> int:
        typed = self._tables.typed_text
        return typed.occurrences(word) if typed is not None else 0


def placed(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Ordered candidates as they are shown: some wait until the first places are taken.

    If too few are left for the first places, shortened queries take them, frequent ones do not.
    """
    first: list[Candidate] = []
    waiting = []
    shortened = 0
    for candidate in candidates:
        over = candidate.shortened and shortened == MOST_SHORTENED
        if len(first) == FIRST_PLACES or over or candidate.loses_topic or not candidate.called_for:
            waiting.append(candidate)
        else:
            first.append(candidate)
            shortened += candidate.shortened
    fill = [candidate for candidate in waiting if candidate.called_for]
    first += fill[: FIRST_PLACES - len(first)]
    if len(first) < FIRST_PLACES:
        return first
    return [*first, *(candidate for candidate in waiting if candidate not in first)]

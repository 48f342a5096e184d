"""Completion and diversity for models that have none of their own, from what every model has.

Completions are the known queries with the typed beginning (the guard's table holds them with their
counts), the most frequent ones ordered by the model's own likelihood in the session. Diversity is
maximal marginal relevance over the words that suggestions share.
"""

import heapq
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from nextquery.guard.guard import Guard
from nextquery.inference.diversity import diversify
from nextquery.normalise import normalise_query
from nextquery.records import Suggestion
from nextquery.suggesters.base import Scorer

CANDIDATES = 50
LISTS_LOOKED_AT = 4
"""A diverse list of n is chosen among so many times n suggestions."""
_PREFIXES_REMEMBERED = 10_000


class FrequentCompletion:
    """Known queries by their beginning, for one model."""

    def __init__(self, scorer: Scorer, guard: Guard) -> None:
        self._scorer = scorer
        self._guard = guard
        # A short prefix has many queries; the walk over them is made once.
        self._candidates = lru_cache(_PREFIXES_REMEMBERED)(self._most_frequent)

    def complete(self, context: Sequence[str], prefix: str, n: int) -> list[Suggestion]:
        """At most `n` known queries that begin with `prefix`, likeliest in the session first."""
        typed = normalise_query(prefix)
        if typed and prefix[-1].isspace():
            typed += " "
        present = {normalise_query(query) for query in context}
        shown = [
            query
            for query in self._candidates(typed)
            if query not in present and self._guard.allows(query, context)
        ]
        scored = self._scorer.score(context, shown) if shown else []
        ordered = sorted(scored, key=lambda item: (-item.log_likelihood, item.text))
        return [
            Suggestion(item.text, item.log_likelihood, self._guard.source(item.text))
            for item in ordered[:n]
        ]

    def _most_frequent(self, typed: str) -> tuple[str, ...]:
        items = self._guard.tables.queries.iteritems(typed)
        best = heapq.nsmallest(CANDIDATES, items, key=lambda item: (-item[1][0], item[0]))
        return tuple(query for query, _ in best)


def diverse(found: Sequence[Suggestion], n: int, diversity: float) -> list[Suggestion]:
    """`n` of the suggestions, likelihood traded for words not yet shown.

    >>> found = [
    ...     Suggestion("red shoes", -1.0, ""),
    ...     Suggestion("red shoes sale", -1.1, ""),
    ...     Suggestion("blue hat", -2.0, ""),
    ... ]
    >>> [item.text for item in diverse(found, 2, 0.8)]
    ['red shoes', 'blue hat']
    """
    words = sorted({word for item in found for word in item.text.split()})
    places = {word: place for place, word in enumerate(words)}
    vectors = np.zeros((len(found), len(words)))
    for row, item in enumerate(found):
        vectors[row, [places[word] for word in item.text.split()]] = 1.0
    values = np.array([item.score for item in found])
    return [found[place] for place in diversify(values, vectors, n, diversity)]

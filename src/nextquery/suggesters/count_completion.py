"""Completion and diversity for count models, from what every one of them has.

Completions are known queries with the typed beginning (the guard's table holds them all), likeliest
in the session first. Not all of them are scored: what a model does not expect in the session is as
likely as it is frequent, so that the likeliest are among those that the session brings up and the
most frequent ones. Diversity is maximal marginal relevance over the words that suggestions share.
"""

import heapq
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Protocol

import numpy as np

from nextquery.guard.guard import Guard
from nextquery.inference.lists.diversity import diversify
from nextquery.normalise import normalise_query
from nextquery.records import ScoredQuery, Suggestion

EXPECTED = 1000
"""So many queries that the session brings up are looked at."""
FREQUENT = 50
"""So many frequent queries at first, more where the guard refuses them."""
LISTS_LOOKED_AT = 4
"""A diverse list of n is chosen among so many times n suggestions."""
_PREFIXES_REMEMBERED = 10_000
_SESSIONS_REMEMBERED = 256


class CountedQueries(Protocol):
    """What completion needs of a model."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The natural-log likelihood of each candidate given the context."""
        ...

    def expected(self, context: Sequence[str], limit: int) -> list[str]:
        """About `limit` of the queries that the session makes likelier than their frequency."""
        ...

    def frequency(self, query: str, count: int) -> float:
        """By what known queries are ordered where the session says nothing."""
        ...


class KnownCompletion:
    """Known queries by their beginning, for one model."""

    def __init__(self, model: CountedQueries, guard: Guard) -> None:
        self._model = model
        self._guard = guard
        # A short prefix has many queries; the walk over them is made once.
        self._frequent = lru_cache(_PREFIXES_REMEMBERED)(self._most_frequent)
        # A session is asked about at every key that is pressed.
        self._expected = lru_cache(_SESSIONS_REMEMBERED)(self._most_expected)

    def complete(self, context: Sequence[str], prefix: str, n: int) -> list[Suggestion]:
        """At most `n` known queries that begin with `prefix`, likeliest in the session first."""
        typed = normalise_query(prefix)
        if typed and prefix[-1].isspace():
            typed += " "
        present = tuple(map(normalise_query, context))
        shown = self._candidates(present, typed, n) if n else []
        scored = self._model.score(context, shown) if shown else []
        ordered = sorted(scored, key=lambda item: (-item.log_likelihood, item.text))
        return [
            Suggestion(item.text, item.log_likelihood, self._guard.source(item.text))
            for item in ordered[:n]
        ]

    def _candidates(self, context: tuple[str, ...], typed: str, n: int) -> list[str]:
        """Queries that may be shown, the `n` likeliest among them."""
        allowed = cache(self._allowed(context))
        expected = [query for query in self._expected(context) if query.startswith(typed)]
        count = max(FREQUENT, n)
        while True:
            frequent = self._frequent(typed, count)
            fine = [query for query in frequent if allowed(query)]
            # Whatever is left is neither expected nor as frequent as these.
            if len(fine) >= n or len(frequent) < count:
                return list(dict.fromkeys([*filter(allowed, expected), *fine]))
            count *= 4

    def _allowed(self, context: tuple[str, ...]) -> Callable[[str], bool]:
        known = self._guard.tables.queries
        return lambda query: (
            query not in context and query in known and bool(self._guard.allows(query, context))
        )

    def _most_expected(self, context: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._model.expected(context, EXPECTED)) if context else ()

    def _most_frequent(self, typed: str, count: int) -> tuple[str, ...]:
        items = self._guard.tables.queries.iteritems(typed)
        weighed = ((-self._model.frequency(query, times), query) for query, (times,) in items)
        return tuple(query for _, query in heapq.nsmallest(count, weighed))


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

"""Trivial rules that any model has to beat: shorten the last query, or complete it."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from nextquery.records import Suggestion
from nextquery.suggesters.count_suggester import clean
from nextquery.suggesters.popularity import Popularity

MOST_WORDS = 10
"""A longer query is shortened as if it had only its first words."""


class DropWords:
    """The last query without some of its words, fewest first; then the most popular queries."""

    kind = "drop words"

    def __init__(self, popularity: Popularity) -> None:
        self._popularity = popularity

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """At most `n` suggestions; never a query of the context."""
        queries, guard = clean(context), self._popularity.guard
        own_text = guard.own_text(queries)
        texts = dict.fromkeys(shortened(queries[-1]) if queries else ())
        allowed = (t for t in texts if t not in queries and guard.allows(t, own_text))
        suggestions = [
            Suggestion(text, -float(rank), guard.source(text))
            for rank, text in zip(range(n), allowed, strict=False)
        ]
        popular = self._popularity.suggest(context, n)
        return [
            *suggestions,
            *(suggestion for suggestion in popular if suggestion.text not in texts),
        ][:n]


def shortened(query: str) -> Iterator[str]:
    """The query with fewer words, in their order; words at the end are dropped first.

    >>> list(shortened("cheap paris hotels"))
    ['cheap paris', 'cheap hotels', 'paris hotels', 'cheap', 'paris', 'hotels']
    """
    words = query.split()[:MOST_WORDS]
    for count in range(len(words) - 1, 0, -1):
        yield from (" ".join(kept) for kept in combinations(words, count))


class LastCompletions:
    """Known queries that begin with the last query, most popular first."""

    kind = "completions"

    def __init__(self, popularity: Popularity) -> None:
        self._popularity = popularity

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """At most `n` suggestions; never a query of the context."""
        queries = clean(context)
        return self._popularity.complete(context, f"{queries[-1]} ", n) if queries else []

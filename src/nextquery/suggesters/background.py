"""What the background log says of single queries and words: numbers, counts and a prior.

Every count model stands on it: it numbers the known queries, gives each its count, and gives any
text at all a probability when nothing else is known. Knows nothing of sequences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import check_length, check_positive, require
from nextquery.suggesters.counts.storage import load_array, load_trie, save_array, save_trie


@dataclass(frozen=True)
class Known:
    """The known queries at the end of a context, newest first."""

    queries: tuple[int, ...]
    shortened_to: str | None = None
    """What is left of the last query, if it was never seen."""


@dataclass(frozen=True)
class Background:
    """The known queries and words with their counts; `counts[id]` belongs to query `id`.

    The prior of a known query is `count / (total + 1)`. The one imaginary observation is left to
    all other texts and spread by spelling them out word by word, see `log_prior`.
    """

    queries: Any
    counts: NDArray[Any]
    words: Any
    word_counts: NDArray[np.int64]

    def save(self, folder: Path) -> None:
        """Write the four files into a model folder."""
        save_trie(folder, "queries.trie", self.queries)
        save_trie(folder, "words.trie", self.words)
        save_array(folder, "query_counts.npy", self.counts)
        save_array(folder, "word_counts.npy", self.word_counts)

    @classmethod
    def load(cls, artifact: Artifact) -> Self:
        """Map what `save` wrote."""
        return cls(
            load_trie(artifact, "queries.trie"),
            load_array(artifact, "query_counts.npy"),
            load_trie(artifact, "words.trie"),
            load_array(artifact, "word_counts.npy"),
        )

    def check(self) -> None:
        """Refuse tries and counts that do not belong together."""
        require(len(self.queries) > 0, "queries.trie is empty")
        for name, trie, counts in (
            ("query_counts", self.queries, self.counts),
            ("word_counts", self.words, self.word_counts),
        ):
            check_length(name, counts, len(trie))
            check_positive(name, counts)

    @cached_property
    def total(self) -> float:
        """How many queries were counted."""
        return float(self.counts.sum())

    @cached_property
    def symbols(self) -> float:
        """How many words and query ends were counted, and one for the unknown word."""
        return float(self.word_counts.sum()) + self.total + 1

    def id(self, query: str) -> int | None:
        """The number of a known query."""
        found: int | None = self.queries.get(query)
        return found

    def text(self, query: int) -> str:
        """The query with this number."""
        restored: str = self.queries.restore_key(query)
        return restored

    def ids(self, queries: Sequence[str]) -> NDArray[np.int32]:
        """The numbers of many known queries."""
        return np.fromiter((self.queries[query] for query in queries), np.int32, len(queries))

    def shortened(self, query: str) -> tuple[int, str] | None:
        """The known query left after dropping words from the end: the paper's long-tail rule."""
        left = known_beginning(query, self.queries.__contains__)
        return (self.queries[left], left) if left else None

    def newest_known(self, context: Sequence[str], *, shorten: bool) -> "Known":
        """The last queries of a context up to the first that is not known, newest first.

        With `shorten`, an unknown last query is read as what is left of it.
        """
        queries: list[int] = []
        shortened_to = None
        for text in reversed(context):
            query = self.id(text)
            if query is None and not queries and shorten:
                query, shortened_to = self.shortened(text) or (None, None)
            if query is None:
                break
            queries.append(query)
        return Known(tuple(queries), shortened_to)

    def prior(self, query: int) -> float:
        """The probability of a known query when nothing is known of its context."""
        return float(self.counts[query]) / (self.total + 1)

    def log_prior(self, query: str) -> float:
        """The natural log-probability of any text when nothing is known of its context.

        An unknown query is spelt out: `log(1 / (total + 1))`, then `log(count(word) / symbols)` a
        word, an unknown word counted as one, and `log(total / symbols)` for the end.
        """
        known = self.id(query)
        if known is not None:
            return log(self.prior(known))
        spelt = sum(log(self._word_count(word) / self.symbols) for word in query.split())
        return spelt + log(self.total / self.symbols) - log(self.total + 1)

    def unknown_words(self, query: str) -> tuple[str, ...]:
        """The words that the background does not know, in their order."""
        return tuple(word for word in query.split() if self.words.get(word) is None)

    def _word_count(self, word: str) -> int:
        found = self.words.get(word)
        return 1 if found is None else int(self.word_counts[found])


def known_beginning(query: str, known: Callable[[str], bool]) -> str:
    """The paper's long-tail rule: drop words from the end until a known query remains.

    >>> known_beginning("red cars for sale", {"red cars", "cars"}.__contains__)
    'red cars'
    >>> known_beginning("boats", {"red cars", "cars"}.__contains__)
    ''
    """
    words = query.split()
    while words and not known(" ".join(words)):
        words.pop()
    return " ".join(words)

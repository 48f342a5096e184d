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
import polars as pl
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.storage import build_trie, load_array, load_trie, save_array


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

    @classmethod
    def from_data(cls, data: PreparedData) -> Self:
        """Read the count tables of a prepared folder."""
        queries, counts = _numbered(data, "queries", "query")
        words, word_counts = _numbered(data, "words", "word")
        if not len(queries):
            raise InputError(
                f"{data.path}: no query was typed by {data.min_users} users; "
                "prepare it again with a lower `min_users`"
            )
        return cls(queries, counts, words, word_counts)

    def save(self, folder: Path) -> None:
        """Write the four files into a model folder."""
        self.queries.save(str(folder / "queries.trie"))
        self.words.save(str(folder / "words.trie"))
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

    def heaviest_first(self, weights: NDArray[Any]) -> NDArray[np.int32]:
        """The queries' numbers ordered by weight, highest first, ties by text."""
        texts = pl.Series("text", map(self.text, range(len(weights))), pl.String)
        frame = pl.DataFrame({"text": texts, "weight": weights}).with_row_index("id")
        ordered = frame.sort("weight", "text", descending=[True, False])
        return ordered["id"].cast(pl.Int32).to_numpy()

    def ranks(self) -> NDArray[np.int32]:
        """The rank of each query by count, ties by text, the most frequent having rank 0."""
        ranks = np.empty(len(self.counts), np.int32)
        ranks[self.heaviest_first(self.counts)] = np.arange(len(ranks), dtype=np.int32)
        return ranks

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


def _numbered(data: PreparedData, table: str, column: str) -> tuple[Any, NDArray[np.int64]]:
    """A trie over a count table's texts, and the counts in the order of its numbers."""
    rows = data.counts(table).select(column, pl.col("count").cast(pl.Int64)).collect()
    texts = rows[column].to_list()
    trie = build_trie(texts)
    counts = np.zeros(len(texts), np.int64)
    counts[np.fromiter((trie[text] for text in texts), np.int64, len(texts))] = rows["count"]
    return trie, counts

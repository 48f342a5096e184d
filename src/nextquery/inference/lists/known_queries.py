"""Which words may come next so that a query becomes a known one: a trie of word ids in sorted rows.

A known query is one that at least K users typed (the guard's table holds them). Each is a row of
word ids, its end included; rows are sorted, so that those with one beginning stand together and no
nodes are needed. Queries with a word outside the vocabulary cannot be generated and are left out.
Knows ids; knows nothing of likelihoods.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nextquery.text.vocabulary import END_OF_QUERY, PADDING, Vocabulary

Ids = NDArray[np.int64]

MOST_WORDS = 20
"""Longer queries are left out."""

_PREFIXES_REMEMBERED = 4096


class KnownQueries:
    """The known queries of a model.

    >>> known = KnownQueries(["paris hotels", "paris map", "rome"], Vocabulary(["paris", "map"]))
    >>> len(known)
    1
    """

    def __init__(self, queries: Iterable[str], vocabulary: Vocabulary) -> None:
        rows = [
            ids
            for words in (query.split() for query in queries)
            if 0 < len(words) <= MOST_WORDS and all(word in vocabulary for word in words)
            for ids in [[*map(vocabulary.id, words), END_OF_QUERY]]
        ]
        table = np.full((len(rows), MOST_WORDS + 1), PADDING, dtype=np.int32)
        for place, ids in enumerate(rows):
            table[place, : len(ids)] = ids
        order = np.lexsort(table.T[::-1])
        self._columns = np.ascontiguousarray(table[order].T)  # (words, queries)
        self.next_words = lru_cache(_PREFIXES_REMEMBERED)(self._next_words)

    def __len__(self) -> int:
        return int(self._columns.shape[1])

    def _next_words(self, prefix: Sequence[int]) -> Ids:
        """The words, or the end, that follow a beginning in any known query, ascending."""
        if len(prefix) > MOST_WORDS:
            return np.empty(0, dtype=np.int64)
        start, stop = 0, len(self)
        for column, word in zip(self._columns, prefix, strict=False):
            found = np.searchsorted(column[start:stop], [word, word + 1])
            start, stop = start + int(found[0]), start + int(found[1])
        here = self._columns[len(prefix), start:stop]
        return np.unique(here).astype(np.int64)

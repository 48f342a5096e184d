"""Which words were seen behind which: lists of followers, found when first asked for and kept.

The guard's table holds fingerprints of pairs, so that the followers of a word are found by trying
every word once. All lists together are no longer than the table. Knows keys; no text.
"""

import numpy as np
from numpy.typing import NDArray

from nextquery.guard.fingerprints import Keys, in_sorted, pair_keys

Ids = NDArray[np.int64]


class FollowerTable:
    """The followers of every word of a vocabulary.

    >>> keys = np.array([5, 6, 7], dtype=np.uint64)
    >>> FollowerTable(keys, np.sort(pair_keys(keys[:1], keys[1:]))).of(0)
    array([1, 2])
    """

    def __init__(self, keys: Keys, common: Keys) -> None:
        """`keys` are those of the words; `common` the sorted keys of the pairs."""
        self.keys, self.common = keys, common
        self._known: dict[int, Ids] = {}

    def __len__(self) -> int:
        return len(self.common)

    def of(self, word: int) -> Ids:
        """The ids of the words seen behind a word of the vocabulary, ascending."""
        found = self._known.get(word)
        if found is None:
            found = self._known[word] = self.behind(self.keys[[word]])
        return found

    def behind(self, key: Keys) -> Ids:
        """The same behind any word, whose key is (1,)."""
        return np.flatnonzero(in_sorted(pair_keys(key, self.keys), self.common))

"""Character n-grams of words, hashed into a fixed number of buckets. Knows no model.

A word's n-grams are all runs of 3 to 5 characters of `<word>`, the angle brackets marking where it
begins and ends; of a longer word the first 40 characters count. An n-gram's bucket is the CRC-32
(as in gzip and PNG) of its UTF-8 bytes, modulo the number of buckets: the same on every machine, in
every version, so that a trained table keeps its meaning. The special symbols have no n-grams.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from nextquery.text.vocabulary import SPECIAL

SHORTEST, LONGEST = 3, 5
MOST_CHARACTERS = 40

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


def ngrams(word: str) -> list[str]:
    """The character n-grams of a word; one that stands twice in it counts twice.

    >>> ngrams("red")
    ['<re', 'red', 'ed>', '<red', 'red>', '<red>']
    """
    if word in SPECIAL:
        return []
    text = f"<{word[:MOST_CHARACTERS]}>"
    return [
        text[start : start + size]
        for size in range(SHORTEST, LONGEST + 1)
        for start in range(len(text) - size + 1)
    ]


def bucket(ngram: str, buckets: int) -> int:
    """The bucket of an n-gram.

    >>> bucket("<re", 1000), bucket("ed>", 1000)
    (141, 689)
    """
    return crc32(ngram.encode()) % buckets


@dataclass(frozen=True, eq=False)
class NgramTable:
    """The buckets of the n-grams of many words, one word behind the other."""

    buckets: Ints
    """(total,): those of the first word, then those of the second, ..."""
    starts: Ints
    """(words + 1,): where those of each word begin."""

    @classmethod
    def of(cls, words: Iterable[str], buckets: int) -> "NgramTable":
        """The table of these words.

        >>> table = NgramTable.of(["red", "<eoq>"], 1000)
        >>> len(table), table.starts.tolist()
        (2, [0, 6, 6])
        """
        found = [[bucket(ngram, buckets) for ngram in ngrams(word)] for word in words]
        flat = [number for numbers in found for number in numbers]
        ends = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return cls(np.array(flat, dtype=np.int64), ends)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: Ints) -> "NgramTable":
        """The table of some of the words, in the given order."""
        counts = (self.starts[1:] - self.starts[:-1])[rows]
        ends = np.cumsum([0, *counts.tolist()], dtype=np.int64)
        places = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
        return NgramTable(self.buckets[np.repeat(self.starts[rows], counts) + places], ends)

    def joined(self, more: "NgramTable") -> "NgramTable":
        """The table of these words and, behind them, of others."""
        return NgramTable(
            np.concatenate([self.buckets, more.buckets]),
            np.concatenate([self.starts, self.starts[-1] + more.starts[1:]]),
        )

    def means(self, vectors: Floats) -> Floats:
        """The mean of each word's n-gram vectors (words, d), zero for a word without any.

        >>> table = NgramTable(np.array([0, 1, 1]), np.array([0, 2, 2, 3]))
        >>> table.means(np.array([[2.0], [4.0]], np.float32)).tolist()
        [[3.0], [0.0], [4.0]]
        """
        counts = self.starts[1:] - self.starts[:-1]
        found = np.zeros((len(self), vectors.shape[1]), dtype=np.float32)
        some = counts > 0  # reduceat gives a row to nothing, too
        if some.any():
            sums = np.add.reduceat(vectors[self.buckets], self.starts[:-1][some], axis=0)
            found[some] = sums / counts[some, None].astype(np.float32)
        return found

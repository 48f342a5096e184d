"""The words of a session beside those of the vocabulary: their ids, and which can be copied.

A word is an id of the vocabulary or, from V on, a word of the context that the vocabulary lacks.
Knows words and ids; knows nothing of probabilities.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.text.vocabulary import Vocabulary

Ids = NDArray[np.int64]


class SessionVocabulary:
    """The words of one context: those outside the vocabulary have ids from V on.

    `words` can be copied; `given` are words of a half-typed query, which may be unknown too.
    """

    def __init__(
        self, vocabulary: Vocabulary, words: Sequence[str], given: Sequence[str] = ()
    ) -> None:
        self._vocabulary = vocabulary
        self.outside: tuple[str, ...] = tuple(
            dict.fromkeys(word for word in (*words, *given) if word not in vocabulary)
        )
        self._ids = {word: len(vocabulary) + n for n, word in enumerate(self.outside)}
        self.distinct: tuple[int, ...] = tuple(sorted(set(map(self.id, words))))
        """The ids of all words that can be copied, each once, ascending."""

    def is_outside(self, word_id: int) -> bool:
        """Whether the vocabulary lacks the word."""
        return word_id >= len(self._vocabulary)

    def can_be_predicted(self, word_id: int) -> bool:
        """Whether the model can give the word a probability of its own."""
        return not self.is_outside(word_id) or word_id in self.distinct

    def id(self, word: str) -> int:
        """The id of a word, that of the unknown word if neither side knows it."""
        return self._ids.get(word, self._vocabulary.id(word))

    def word(self, word_id: int) -> str:
        """The word of an id."""
        known = self._vocabulary.words
        return known[word_id] if word_id < len(known) else self.outside[word_id - len(known)]

    def text(self, word_ids: Sequence[int]) -> str:
        """The words of some ids, joined."""
        known, outside = self._vocabulary.words, self.outside
        size = len(known)
        return " ".join([known[word] if word < size else outside[word - size] for word in word_ids])


@dataclass(frozen=True, eq=False)
class CopyTable:
    """The words that can be copied in each context of a batch, to be looked up in one list.

    The list has a key `context * width + word` for each of them, ascending, so that looking up
    costs its logarithm and nothing of the size (words asked for, own words) is ever made.
    """

    words: Ids
    """(total,): ids, each once and ascending in each context."""
    first: Ids
    """(contexts + 1,): where the words of each context begin."""
    keys: Ids
    """(total,): the keys of all contexts."""
    width: int
    """More than any id."""
    most: int
    """The largest number of words of one context."""

    @classmethod
    def of(cls, contexts: Sequence[Sequence[int]], width: int) -> "CopyTable":
        """From the ascending ids of each context."""
        counts = [len(ids) for ids in contexts]
        words = np.array([word for ids in contexts for word in ids], dtype=np.int64)
        keys = np.repeat(np.arange(len(contexts)), counts) * width + words
        return cls(words, np.cumsum([0, *counts]), keys, width, max(counts))

    def columns(self, contexts: Ids, words: Ids) -> Ids:
        """The columns of `words` among those of their contexts, -1 for a word not among them."""
        wanted = contexts * self.width + words
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, places - self.first[contexts], -1)

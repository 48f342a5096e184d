"""The text-quality gate: whether a generated query reads like one that people type.

Queries of K users always pass. Another text is refused if it begins or ends with a word that hardly
ever does so, has a word twice, is one word of the session, has a misspelt word, or if its words
follow each other less naturally than those of nearly all typed queries. The last is measured by a
bigram model:

    P(b | a) = (n(a, b) + m P(b)) / (n(a) + m)

A user counts once per query, so that one visitor cannot set what is usual. Only words and pairs of
K users have counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts.arrays import check_length, require
from nextquery.guard.fingerprints import Keys, pair_key, text_key

SELDOM = 0.05
"""A word seldom begins (ends) a query if a smaller share of its occurrences does."""
FEWEST_OCCURRENCES = 20
"""The counts of a rarer word say little about where it is used; the lists below decide."""
DISFLUENT_SHARE = 0.02
"""This share of the typed queries is less fluent than the threshold."""
SMOOTHING = 5.0
"""`m` of the bigram model."""

_LAST = (
    "a an and at by for from in of on or the to with",
    "der die das und im mit von zu le la les des du de et pour dans sur",
    "el los las y para con por del il lo gli di per da os dos em",
    "het een en van voor met op och att ett på av till",
)
NEVER_LAST = frozenset(" ".join(_LAST).split())
"""Words that end no query, unless the log's own counts say otherwise."""
NEVER_FIRST = NEVER_LAST & {"and", "or", "by", "of", "und", "von", "et", "y", "och", "van"}
"""Words that begin no query."""


SHORT_WORD = 3
"""A word of at most this number of letters is not a plural."""


class Flaw(StrEnum):
    """Why a generated text is not shown."""

    MISSPELT = "a misspelt word whose correction is known"
    REPEATED_WORD = "a word twice"
    DANGLING = "a word that hardly ever begins or ends a query"
    FRAGMENT = "one word of the session"
    DISFLUENT = "words in an unusual order"


@dataclass(frozen=True, eq=False)
class TypedText:
    """How words are used in the queries that people typed."""

    words: Any
    """A trie of the words of K users, which numbers them."""
    secret: bytes
    """The key of the fingerprints."""
    counts: NDArray[np.int64]
    """(3 * words,): of each word its occurrences, those that begin a query, those that end one."""
    pair_keys: Keys
    """The keys of the adjacent words of K users, ascending."""
    pair_users: NDArray[np.int64]
    """(pairs,): how many users typed the pair."""
    least_fluency: float = -np.inf
    """The threshold of `fluency`."""
    corrections: Mapping[str, str] = field(default_factory=dict)
    """Misspelt words of the log and what they were corrected to."""

    def check(self) -> None:
        """Refuse counts that do not fit together."""
        check_length("word_positions", self.counts, 3 * len(self.words))
        require(bool((self.counts >= 0).all()), "word_positions has a negative count")
        check_length("pair_users", self.pair_users, len(self.pair_keys))

    def flaw(self, text: str, session_words: frozenset[str], session_pairs: Keys) -> Flaw | None:
        """What is wrong with a text that fewer than K users typed, if anything.

        `session_words` and `session_pairs` are the visitor's own, whose order is not judged.
        """
        words = text.split()
        if len(words) == 1:
            return Flaw.FRAGMENT if text in session_words else self._misspelt(words)
        if len({singular(word) for word in words}) < len(words):
            return Flaw.REPEATED_WORD
        if self.hardly_begins(words[0]) or self.hardly_ends(words[-1]):
            return Flaw.DANGLING
        if self.fluency(words, session_pairs) < self.least_fluency:
            return Flaw.DISFLUENT
        return self._misspelt(words)

    def _misspelt(self, words: Sequence[str]) -> Flaw | None:
        return Flaw.MISSPELT if any(word in self.corrections for word in words) else None

    def occurrences(self, word: str) -> int:
        """How often people typed a word, each user once per query; 0 for fewer than K users."""
        return self._row(word)[0]

    def hardly_begins(self, word: str) -> bool:
        """Whether queries hardly ever begin with a word."""
        return self._seldom(word, 1, NEVER_FIRST)

    def hardly_ends(self, word: str) -> bool:
        """Whether queries hardly ever end with a word."""
        return self._seldom(word, 2, NEVER_LAST)

    def _seldom(self, word: str, column: int, otherwise: frozenset[str]) -> bool:
        row = self._row(word)
        if row[0] < FEWEST_OCCURRENCES:
            return word in otherwise
        return (row[column] + 0.5) / (row[0] + 1) < SELDOM

    def fluency(self, words: Sequence[str], session_pairs: Keys) -> float:
        """The mean log-probability of each word after the one before it.

        Pairs of the session are left out; 0 if nothing is left to judge.
        """
        keys = [text_key(word, self.secret) for word in words]
        logs = []
        for (before, word), (first, second) in zip(pairwise(words), pairwise(keys), strict=True):
            pair = pair_key(first, second)
            if not _find(session_pairs, pair)[1]:
                share = (self._row(word)[0] + 1.0) / self._symbols
                seen = self._pair_users(pair) + SMOOTHING * share
                logs.append(log(seen / (self._row(before)[0] + SMOOTHING)))
        return sum(logs) / len(logs) if logs else 0.0

    @cached_property
    def _symbols(self) -> float:
        return float(self.counts[::3].sum()) + 1.0

    def _row(self, word: str) -> tuple[int, int, int]:
        number = self.words.get(word)
        if number is None:
            return 0, 0, 0
        count, first, last = self.counts[3 * number : 3 * number + 3].tolist()
        return count, first, last

    def _pair_users(self, pair: int) -> int:
        position, exists = _find(self.pair_keys, pair)
        return int(self.pair_users[position]) if exists else 0

    def calibrated(self, typed: Sequence[str]) -> TypedText:
        """The same with the fluency that nearly all of some typed queries reach.

        Only queries made of pairs of K users count: others are not generated.
        """
        no_pairs = np.empty(0, dtype=np.uint64)
        texts = (query.split() for query in typed)
        values = [
            self.fluency(words, no_pairs)
            for words in texts
            if len(words) > 1 and self._usual(words)
        ]
        least = float(np.quantile(values, DISFLUENT_SHARE)) if values else -np.inf
        return replace(self, least_fluency=least)

    def _usual(self, words: Sequence[str]) -> bool:
        keys = [text_key(word, self.secret) for word in words]
        return all(_find(self.pair_keys, pair_key(*pair))[1] for pair in pairwise(keys))


def _find(keys: Keys, key: int) -> tuple[int, bool]:
    """The position of a key among ascending ones, and whether it is there."""
    position = int(np.searchsorted(keys, np.uint64(key)))
    return position, position < len(keys) and int(keys[position]) == key


def singular(word: str) -> str:
    """A crude singular, so that `hotel hotels` has a word twice."""
    return word[:-1] if len(word) > SHORT_WORD and word.endswith("s") else word

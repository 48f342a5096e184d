"""Spelling of what a visitor types, corrected by the log's own words while serving.

The rules are those of `logs/spelling.py`; the counts are in the guard's tables, so that every
model folder made from corrected data has them. Only words and pairs that K users typed are there.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property

from nextquery.guard.fingerprints import pair_key, text_key
from nextquery.guard.guard import Guard, looks_typed
from nextquery.guard.tables import Tables
from nextquery.logs.spelling import (
    ALONE_LENGTH,
    ALONE_RATIO,
    IN_CONTEXT_RATIO,
    MIN_LENGTH,
    MIN_TARGET_COUNT,
    PAIR_LIFT,
    SPLIT_RATIO,
    Candidate,
    choose,
    inflected,
)
from nextquery.records import Correction

_UNKNOWN_LENGTH = 4
"""A word that K users never typed is corrected from this length on, if that makes a known query."""
_MOST_LETTERS = 64
"""Where more letters can follow, as in Chinese, none is tried: slips there are others."""
LONGEST_WORD = 32
"""A longer word is not a slip of the pen, and takes time."""


def slips(words: Sequence[str], text: str) -> Iterator[str]:
    """Beginnings of sorted `words` that are one slip away from `text`.

    A slip is a letter too many, missing, wrong, or two exchanged; the first letter is right, or
    exchanged with the second.

    >>> sorted(slips(["hotel", "hotels", "motel", "mouse"], "hotl"))
    ['hot', 'hote', 'hotel']
    """
    if len(text) < 2 or len(text) > LONGEST_WORD:
        return
    exchanged = text[1] + text[0] + text[2:]
    if exchanged != text and _begins(words, exchanged, 0, len(words)):
        yield exchanged
    low, high = 0, len(words)
    for length in range(1, len(text) + 1):
        low = bisect_left(words, text[:length], low, high)
        high = bisect_left(words, text[:length] + chr(0x10FFFF), low, high)
        if low == high or length == len(text):
            return
        head, rest = text[:length], text[length + 1 :]
        edited = {head + rest}
        if rest:
            edited.add(head + rest[0] + text[length] + rest[1:])
        for letter in _letters(words, length, low, high):
            edited.add(head + letter + rest)
            edited.add(head + letter + text[length:])
        edited.discard(text)
        for other in sorted(edited):
            if _begins(words, other, low, high):
                yield other


def _letters(words: Sequence[str], length: int, low: int, high: int) -> list[str]:
    """The next letters of the words from `low` to `high`, which share `length` letters."""
    letters: list[str] = []
    while low < high and len(letters) < _MOST_LETTERS:
        word = words[low]
        if len(word) == length:
            low += 1
            continue
        letters.append(word[length])
        low = bisect_left(words, word[: length + 1] + chr(0x10FFFF), low, high)
    return letters if low == high else []


def _begins(words: Sequence[str], text: str, low: int, high: int) -> bool:
    index = bisect_left(words, text, low, high)
    return index < high and words[index].startswith(text)


def _replaced(first: str, second: str) -> bool:
    """Whether two words differ in one letter: often both are right ("iceland", "ireland")."""
    return len(first) == len(second) and sorted(first) != sorted(second)


class QuerySpeller:
    """Corrects one query at a time by the tables of a model folder."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._tables: Tables = guard.tables
        self.enabled = len(self._tables.word_counts) > 0
        """Whether the folder has the counts: it was made of data with corrected spelling."""

    @cached_property
    def words(self) -> list[str]:
        """The words that K users typed, in alphabetical order."""
        return sorted(self._tables.words.keys()) if self.enabled else []

    @cached_property
    def _total(self) -> int:
        return int(self._tables.word_counts.sum())

    def count(self, word: str) -> int:
        """How often the background has a word that K users typed; 0 for any other."""
        tables = self._tables
        return int(tables.word_counts[tables.words[word]]) if word in tables.words else 0

    def correct(self, query: str) -> Correction | None:
        """What a normalised query was probably meant to be; None where nothing is to be changed.

        A query that K users typed is left alone unless another one, a slip away, is a hundred times
        as frequent. Nothing blocked is made of another text.
        """
        if not self.enabled or not query or not looks_typed(query):
            return None
        words = query.split(" ")
        changes: list[tuple[str, str]] = []
        for position, word in enumerate(words):
            replacement = self._replacement(words, position)
            if replacement is not None:
                changes.append((word, replacement))
                words[position] = replacement
        text = " ".join(words)
        blocklist = self._guard.blocklist
        if not changes or (blocklist.blocks(text) and not blocklist.blocks(query)):
            return None
        return Correction(query, text, tuple(changes))

    def _replacement(self, words: Sequence[str], position: int) -> str | None:
        word = words[position]
        if not _UNKNOWN_LENGTH <= len(word) <= LONGEST_WORD or not word.isalpha():
            return None
        count = self.count(word)
        candidates = list(self._candidates(word, count))
        whole = self._known_query(words, position, candidates)
        if whole is not None:
            return whole
        if len(word) < MIN_LENGTH or " ".join(words) in self._tables.queries:
            return None
        split = self._split(word, count)
        if split is not None or not candidates:
            return split
        before = words[position - 1].split(" ")[-1] if position else None
        after = words[position + 1] if position + 1 < len(words) else None
        own_count = self._seen_with(before, word, after, significant=False)
        return choose(
            candidates,
            own_count,
            lambda text: self._seen_with(before, text, after, significant=True),
        )

    def _candidates(self, word: str, count: int) -> Iterator[Candidate]:
        """Frequent words one slip away, most frequent first."""
        known = self._tables.words
        near = {other: self.count(other) for other in slips(self.words, word) if other in known}
        enough = max(MIN_TARGET_COUNT, IN_CONTEXT_RATIO * max(count, 1))
        for other in sorted(near, key=lambda text: (-near[text], text)):
            if near[other] < enough or not other.isalpha() or inflected(word, other):
                continue
            alone = len(word) >= ALONE_LENGTH and near[other] >= ALONE_RATIO * max(count, 1)
            yield Candidate(other, alone=alone and not _replaced(word, other))

    def _known_query(
        self, words: Sequence[str], position: int, candidates: Sequence[Candidate]
    ) -> str | None:
        """The candidate that makes a query that K users typed, the most frequent one.

        For a short word, a word that K users typed and one without another, the query must be very
        frequent, and a hundred times as frequent as what was typed.
        """
        word = words[position]
        plain = len(word) >= MIN_LENGTH and len(words) > 1 and word not in self._tables.words
        typed = self._tables.count(" ".join(words))
        best, most = None, 0 if plain else ALONE_RATIO * max(1, typed) - 1
        for candidate in candidates:
            if not plain and _replaced(word, candidate.text):
                continue
            text = " ".join([*words[:position], candidate.text, *words[position + 1 :]])
            count = self._tables.count(text)
            if count > most:
                best, most = candidate.text, count
        return best

    def _split(self, word: str, count: int) -> str | None:
        """The two words that are typed more often than `word` is typed as one."""
        best, most = None, max(MIN_TARGET_COUNT, SPLIT_RATIO * max(count, 1)) - 1
        for split_at in range(2, len(word) - 1):
            first, second = word[:split_at], word[split_at:]
            if first in self._tables.words and second in self._tables.words:
                seen = self._pair(first, second)
                if seen > most:
                    best, most = f"{first} {second}", seen
        return best

    def _seen_with(
        self, before: str | None, word: str, after: str | None, *, significant: bool
    ) -> int:
        count = 0 if before is None else self._pair(before, word, significant=significant)
        return count + (0 if after is None else self._pair(word, after, significant=significant))

    def _pair(self, first: str, second: str, *, significant: bool = False) -> int:
        """How often K users typed both; with `significant` 0 if that may be by chance."""
        secret = self._tables.secret
        key = pair_key(text_key(first, secret), text_key(second, secret))
        count = self._tables.pair_count(key)
        product = self.count(first) * self.count(second)
        if significant and count * self._total < PAIR_LIFT * product:
            return 0
        return count

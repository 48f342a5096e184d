"""A spelling corrector that knows only the log itself: its word and word-pair counts.

A rare word becomes a much more frequent one, a slip or two away, where the words beside it are
often seen with that one; without such neighbours only a long word with a very frequent twin is
touched. A word is split where its halves are often typed as two. The counts are the background's,
so nothing of later splits or held-out users leaks into it, and what is learnt from them was typed
by several users, so nobody can plant a correction. Knows nothing of engines or files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl
from symspellpy import SymSpell, Verbosity

MIN_TARGET_COUNT = 10
MIN_TARGET_USERS = 3
MIN_PAIR_USERS = 2
"""A pair that one user typed is no evidence for or against a spelling."""
_MIN_LENGTH = 5
"""Shorter words have too many neighbours that are words of their own."""
_TWO_SLIPS_LENGTH = 8
_IN_CONTEXT_RATIO = 10
_PAIR_COUNT, _PAIR_RATIO = 5, 20
_PAIR_LIFT = 5
"""How much more often than by chance: `of` and `the` stand beside everything."""
_ALONE_LENGTH, _ALONE_RATIO = 7, 100
_SPLIT_RATIO = 5
_INFLECTIONS = ("s", "es", "d", "ed", "r", "er", "y", "n", "al")
"""Endings that make another word, not a misspelt one."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How often a word or pair was typed, and by how many users."""

    count: int
    users: int


WordCounts = Mapping[str, Counted]
PairCounts = Mapping[tuple[str, str], Counted]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a word may stand for; `alone` if no neighbour has to agree."""

    text: str
    alone: bool


@dataclass(frozen=True)
class Speller:
    """The corrector: candidates of every suspicious word, and the pairs that decide."""

    candidates: Mapping[str, tuple[Candidate, ...]]
    pairs: Mapping[tuple[str, str], int]
    """How often two words were seen side by side."""
    telling: Mapping[tuple[str, str], int]
    """Those of the pairs that are seen more often than by chance."""

    def corrections(self, query: str) -> list[tuple[int, str]]:
        """The words to change in a normalised query: position and replacement."""
        words = query.split(" ")
        found = []
        for position, word in enumerate(words):
            if word in self.candidates:
                before = words[position - 1] if position else None
                after = words[position + 1] if position + 1 < len(words) else None
                replacement = self._choose(before, word, after)
                if replacement:
                    found.append((position, replacement))
        return found

    def _choose(self, before: str | None, word: str, after: str | None) -> str | None:
        own = _seen_with(self.pairs, before, word, after)
        best, best_support = None, max(_PAIR_COUNT, _PAIR_RATIO * own) - 1
        for candidate in self.candidates[word]:
            support = _seen_with(self.telling, before, candidate.text, after)
            if support > best_support:
                best, best_support = candidate.text, support
        return best or next((item.text for item in self.candidates[word] if item.alone), None)


def _seen_with(
    pairs: Mapping[tuple[str, str], int], before: str | None, word: str, after: str | None
) -> int:
    count = pairs.get((before, word), 0) if before is not None else 0
    return count + (pairs.get((word, after), 0) if after is not None else 0)


def learn_spelling(words: Iterable[str], counts: WordCounts, pairs: PairCounts) -> Speller:
    """A speller for `words`, from the counts of words and of pairs in the background."""
    joined = _joined_pairs(pairs)
    lookup = _lookup(counts)
    found: dict[str, tuple[Candidate, ...]] = {}
    for word in words:
        if len(word) >= _MIN_LENGTH:
            count = counts[word].count if word in counts else 0
            candidates = _split(word, count, joined) or _slips(word, count, lookup)
            if candidates:
                found[word] = candidates
    plain = {pair: seen.count for pair, seen in pairs.items()}
    return Speller(found, plain, _telling(counts, pairs))


def _telling(counts: WordCounts, pairs: PairCounts) -> dict[tuple[str, str], int]:
    total = sum(seen.count for seen in counts.values())
    return {
        (first, second): seen.count
        for (first, second), seen in pairs.items()
        if seen.count >= _PAIR_COUNT
        and seen.count * total >= _PAIR_LIFT * counts[first].count * counts[second].count
    }


def correct_texts(batch: pl.DataFrame, speller: Speller) -> pl.DataFrame:
    """Correct a batch of `query`; `changes` lists `old>new` of every word changed, by lines."""
    corrected, changes = [], []
    for query in batch["query"].to_list():
        words, changed = query.split(" "), []
        for position, replacement in speller.corrections(query):
            changed.append(f"{words[position]}>{replacement}")
            words[position] = replacement
        corrected.append(" ".join(words))
        changes.append("\n".join(changed) or None)
    return batch.select("query_id").with_columns(
        pl.Series("query", corrected, dtype=pl.String),
        pl.Series("changes", changes, dtype=pl.String),
    )


def _joined_pairs(pairs: PairCounts) -> dict[str, tuple[int, str]]:
    """Pairs by what they look like when the space is forgotten; the most frequent wins."""
    joined: dict[str, tuple[int, str]] = {}
    for (first, second), seen in pairs.items():
        if seen.users >= MIN_TARGET_USERS and seen.count >= MIN_TARGET_COUNT:
            word, candidate = first + second, (seen.count, f"{first} {second}")
            joined[word] = max(joined.get(word, candidate), candidate)
    return joined


def _split(
    word: str, count: int, joined: Mapping[str, tuple[int, str]]
) -> tuple[Candidate, ...] | None:
    pair_count, text = joined.get(word, (0, ""))
    return (Candidate(text, alone=True),) if pair_count >= _SPLIT_RATIO * max(count, 1) else None


def _lookup(counts: WordCounts) -> SymSpell:
    symspell = SymSpell(max_dictionary_edit_distance=2, prefix_length=7)
    for word in sorted(counts):
        seen = counts[word]
        if seen.users >= MIN_TARGET_USERS and seen.count >= MIN_TARGET_COUNT and word.isalpha():
            symspell.create_dictionary_entry(word, seen.count)
    return symspell


def _slips(word: str, count: int, lookup: SymSpell) -> tuple[Candidate, ...]:
    """Frequent words near a rare one, nearest and most frequent first."""
    if not word.isalpha():
        return ()
    slips = 2 if len(word) >= _TWO_SLIPS_LENGTH else 1
    near = lookup.lookup(word, Verbosity.ALL, max_edit_distance=slips)
    near.sort(key=lambda item: (item.distance, -item.count, item.term))
    own = max(count, 1)
    return tuple(
        Candidate(
            item.term,
            alone=item.distance == 1
            and len(word) >= _ALONE_LENGTH
            and item.count >= _ALONE_RATIO * own,
        )
        for item in near
        if item.distance
        and item.count >= _IN_CONTEXT_RATIO * own
        and item.term[0] == word[0]
        and not _inflected(word, item.term)
    )


def _inflected(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return any(shorter + ending == longer for ending in _INFLECTIONS)

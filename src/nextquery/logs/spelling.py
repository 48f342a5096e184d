"""The rules of spelling correction, which need only the log's own word and word-pair counts.

A rare word becomes a much more frequent one, one or two slips away, where the words next to it are
often seen with that one; without such neighbours only a long word with a very frequent twin is
changed. A word is split where its halves are often typed as two. The counts are the background's,
so nothing of later splits or held-out users leaks into it, and what is learnt from them was typed
by several users, so nobody can plant a correction. `guard/spelling.py` applies the same rules to
what a visitor types.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symspellpy import SymSpell

MIN_TARGET_COUNT = 10
MIN_TARGET_USERS = 3
MIN_PAIR_USERS = 2
"""A pair that one user typed says nothing about a spelling."""
MIN_LENGTH = 5
"""Shorter words have too many neighbours that are words of their own."""
_TWO_SLIPS_LENGTH = 8
IN_CONTEXT_RATIO = 10
PAIR_COUNT, PAIR_RATIO = 5, 20
PAIR_LIFT = 5
"""How much more often than by chance: `of` and `the` are next to everything."""
ALONE_LENGTH, ALONE_RATIO = 7, 100
SPLIT_RATIO = 5
_STEM = 4
"""Words that share fewer letters have no stem in common."""
_ENDINGS = {
    ending: group
    for group, endings in enumerate(
        (
            *(("",), ("e",), ("s", "es", "ies"), ("d", "ed", "ied"), ("r", "er", "ier", "or")),
            *(("rs", "ers", "ors"), ("st", "est", "iest", "ist"), ("ists",), ("ism",), ("y",)),
            *(("n", "en", "an", "ian"), ("ing",), ("ings",), ("ion", "ation"), ("ions", "ations")),
            *(("ive", "ative"), ("ives",), ("al", "ial"), ("ally",), ("ly", "ily"), ("ic",)),
            *(("ical",), ("ics",), ("ity", "ety"), ("ities",), ("ous", "ious"), ("ful",)),
            *(("less",), ("ness", "iness"), ("ment",), ("ments",), ("able", "ible"), ("ability",)),
            *(("ance", "ence"), ("ances", "ences"), ("ant", "ent"), ("ants", "ents"), ("th",)),
            *(("ize", "ise"), ("izes", "ises"), ("ized", "ised"), ("izing", "ising")),
            *(("a",), ("o",), ("as",), ("os",), ("em",), ("ung",), ("ungen",), ("lich",)),
            *(("isch",), ("ado",), ("ada",), ("mente",), ("ique",), ("eur",), ("euse",)),
        )
    )
    for ending in endings
}
"""Endings that make another word of a stem. Those of one group are often confused with each other
("independant"), so that exchanging them is a slip."""


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
    significant: Mapping[tuple[str, str], int]
    """Those of the pairs that are seen more often than by chance."""

    def corrections(self, query: str) -> list[tuple[int, str]]:
        """The words to change in a normalised query: position and replacement."""
        words = query.split(" ")
        changes = []
        for position, word in enumerate(words):
            if word in self.candidates:
                before = words[position - 1] if position else None
                after = words[position + 1] if position + 1 < len(words) else None
                replacement = self._choose(before, word, after)
                if replacement:
                    changes.append((position, replacement))
        return changes

    def _choose(self, before: str | None, word: str, after: str | None) -> str | None:
        return choose(
            self.candidates[word],
            _seen_with(self.pairs, before, word, after),
            lambda text: _seen_with(self.significant, before, text, after),
        )


def choose(
    candidates: Iterable[Candidate], own_support: int, support: Callable[[str], int]
) -> str | None:
    """The candidate that replaces a word, if any.

    `own_support` is how often the word itself was seen next to its neighbours, `support` the same
    for a candidate.
    """
    candidates = tuple(candidates)
    best, best_support = None, max(PAIR_COUNT, PAIR_RATIO * own_support) - 1
    for candidate in candidates:
        seen = support(candidate.text)
        if seen > best_support:
            best, best_support = candidate.text, seen
    return best or next((item.text for item in candidates if item.alone), None)


def _seen_with(
    pairs: Mapping[tuple[str, str], int], before: str | None, word: str, after: str | None
) -> int:
    count = pairs.get((before, word), 0) if before is not None else 0
    return count + (pairs.get((word, after), 0) if after is not None else 0)


def learn_spelling(words: Iterable[str], counts: WordCounts, pairs: PairCounts) -> Speller:
    """A speller for `words`, from the counts of words and of pairs in the background."""
    joined = _joined_pairs(pairs)
    lookup = _lookup(counts)
    suspicious: dict[str, tuple[Candidate, ...]] = {}
    for word in words:
        if len(word) >= MIN_LENGTH:
            count = counts[word].count if word in counts else 0
            pair_count, pair = joined.get(word, (0, ""))
            if pair_count >= SPLIT_RATIO * max(count, 1):
                candidates: tuple[Candidate, ...] = (Candidate(pair, alone=True),)
            else:
                candidates = _slips(word, count, lookup)
            if candidates:
                suspicious[word] = candidates
    plain = {pair: seen.count for pair, seen in pairs.items()}
    total = sum(seen.count for seen in counts.values())
    significant = {
        (first, second): seen.count
        for (first, second), seen in pairs.items()
        if seen.count >= PAIR_COUNT
        and seen.count * total >= PAIR_LIFT * counts[first].count * counts[second].count
    }
    return Speller(suspicious, plain, significant)


def _joined_pairs(pairs: PairCounts) -> dict[str, tuple[int, str]]:
    """Pairs by what they look like when the space is forgotten; the most frequent wins."""
    joined: dict[str, tuple[int, str]] = {}
    for (first, second), seen in pairs.items():
        if seen.users >= MIN_TARGET_USERS and seen.count >= MIN_TARGET_COUNT:
            word, candidate = first + second, (seen.count, f"{first} {second}")
            joined[word] = max(joined.get(word, candidate), candidate)
    return joined


def _lookup(counts: WordCounts) -> "SymSpell":
    from symspellpy import SymSpell

    symspell = SymSpell(max_dictionary_edit_distance=2, prefix_length=7)
    for word in sorted(counts):
        seen = counts[word]
        if seen.users >= MIN_TARGET_USERS and seen.count >= MIN_TARGET_COUNT and word.isalpha():
            symspell.create_dictionary_entry(word, seen.count)
    return symspell


def _slips(word: str, count: int, lookup: "SymSpell") -> tuple[Candidate, ...]:
    """Frequent words near a rare one, nearest and most frequent first."""
    from symspellpy import Verbosity

    if not word.isalpha():
        return ()
    slips = 2 if len(word) >= _TWO_SLIPS_LENGTH else 1
    near = lookup.lookup(word, Verbosity.ALL, max_edit_distance=slips)
    near.sort(key=lambda item: (item.distance, -item.count, item.term))
    own_count = max(count, 1)
    return tuple(
        Candidate(
            item.term,
            alone=item.distance == 1
            and len(word) >= ALONE_LENGTH
            and item.count >= ALONE_RATIO * own_count,
        )
        for item in near
        if item.distance
        and item.count >= IN_CONTEXT_RATIO * own_count
        and item.term[0] == word[0]
        and not inflected(word, item.term)
    )


def inflected(one: str, other: str) -> bool:
    """Whether two words look like forms of one stem with different endings.

    >>> inflected("depressive", "depression"), inflected("hotel", "hotels")
    (True, True)
    >>> inflected("independant", "independent"), inflected("univeristy", "university")
    (False, False)
    """
    for stem in range(_STEM, min(len(one), len(other)) + 1):
        if one[:stem] != other[:stem]:
            break
        if one[stem - 1] in (one[stem:], other[stem:]):
            continue  # a letter that was typed twice ("yahooo") makes no other word
        endings = _ENDINGS.get(one[stem:]), _ENDINGS.get(other[stem:])
        if None not in endings and endings[0] != endings[1]:
            return True
    return False

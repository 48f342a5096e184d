"""The blocklist: words and phrases that no suggestion may contain.

The file has one word or phrase per line; what follows a `#` is a comment. An entry is found as
whole words, and in the disguises that docs/guards.md promises: read as the eye does, with letters
drawn out, inflected, cut into pieces, with one letter masked, its words joined. Knows nothing of
models; a list never changes, a changed file is a new list.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from string import ascii_lowercase

from nextquery.errors import BlocklistError
from nextquery.guard.disguise import (
    Reading,
    draws_out,
    inflects,
    leet,
    letters,
    merged,
    read_letters,
    read_many,
    read_text,
    read_word,
)
from nextquery.normalise import normalise_query
from nextquery.plain_files import read_plain_text

MASKED_LENGTH = 4
"""A masked letter (`f*ck`, normalised to `f ck`) is read into words of so many letters or more."""

CHUNK = 500
"""Entries that are read at once; other threads get their turn between two chunks."""
MOST_BYTES = 1 << 26
"""A larger file is no blocklist."""

_INFLECTIONS = ("s", "es", "ed", "ing", "er", "ers")
_EDGE = 5


class Blocklist:
    """An immutable set of blocked words and phrases.

    >>> Blocklist(["badword"]).blocks("cheap b4d-words online")
    True
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._phrases: set[tuple[str, ...]] = set()
        self._merged: set[str] = set()
        self._maskable: set[str] = set()
        self._drawn: dict[str, str] = {}
        """Entries by their squeezed form, between line ends: texts cost the collector nothing."""
        self._stems: dict[str, str] = {}
        self._longest = 0
        seen: set[tuple[str, ...]] = set()
        begins: set[str] = set()
        ends: set[str] = set()
        remaining = iter(entries)
        while chunk := list(islice(remaining, CHUNK)):
            for phrase, word in _read_entries(chunk, seen):
                self._add(phrase, word)
                begins.add(word.coarse[:_EDGE])
                ends.add(word.coarse[-_EDGE:])
        self._count = len(seen)
        self._last_stems = {stems[-1] for stems in self._phrases}
        self._most_words = max(map(len, self._phrases), default=0)
        self._heads = _heads(begins)
        self._tails = _tails(ends)
        self._longest += max(map(len, _INFLECTIONS))

    def _add(self, phrase: Sequence[Reading], word: Reading) -> None:
        """Take in an entry: its words, and all of them as one."""
        self._merged.add(word.merged)
        self._longest = max(self._longest, len(word.letters))
        for index, key in ((self._drawn, word.squeezed), (self._stems, word.stem)):
            index[key] = f"{index[key]}\n{word.letters}" if key in index else word.letters
        if len(phrase) > 1:
            self._phrases.add(tuple(each.stem for each in phrase))
        elif len(word.merged) >= MASKED_LENGTH:
            self._maskable.add(word.merged)

    def __len__(self) -> int:
        return self._count

    def blocks(self, text: str) -> bool:
        """Whether `text` contains a blocked word or phrase, disguised or not."""
        if not self._count:
            return False
        words = read_text(text)
        return any(self._ends_blocked(words[: end + 1]) for end in range(len(words)))

    def is_entry(self, word: Reading) -> bool:
        """Whether a word is blocked by itself, whatever stands before it."""
        if word.merged in self._merged:
            return True
        if word.letters.isdigit():  # 455 is a number
            return False
        drawn, stems = self._drawn.get(word.squeezed), self._stems.get(word.stem)
        if drawn is None and stems is None:  # nearly every word
            return False
        return any(
            draws_out(word.letters, entry) for entry in (drawn or "").split("\n") if entry
        ) or any(inflects(word.letters, entry) for entry in (stems or "").split("\n") if entry)

    def may_end(self, word: Reading) -> bool:
        """Whether a word can be the last of several that are blocked together."""
        return word.coarse[-_EDGE:] in self._tails or word.stem in self._last_stems

    def blocks_last(self, words: Sequence[str]) -> bool:
        """Whether the last of `words` is blocked or completes something blocked."""
        return self._ends_blocked([read for read in map(read_word, words) if read.letters])

    def _ends_blocked(self, words: Sequence[Reading]) -> bool:
        return bool(words) and (
            self.is_entry(words[-1]) or self._ends_phrase(words) or self._ends_cut(words)
        )

    def _ends_phrase(self, words: Sequence[Reading]) -> bool:
        """Whether the last words are those of a blocked phrase, each inflected or not."""
        if words[-1].stem not in self._last_stems:
            return False
        stems = tuple(word.stem for word in words[-self._most_words :])
        return any(stems[start:] in self._phrases for start in range(len(stems) - 1))

    def _ends_cut(self, words: Sequence[Reading]) -> bool:
        """Whether the last two or more words are the pieces of an entry."""
        if len(words) < 2 or words[-1].coarse[-_EDGE:] not in self._tails:
            return False
        return self._is_masked(*words[-2:]) or any(
            self.is_entry(read_letters(leet(pieces))) for pieces in self._pieces(words)
        )

    def _pieces(self, words: Sequence[Reading]) -> Iterator[str]:
        """The last two, three, ... words as one, if an entry begins so and is as long."""
        pieces, length = words[-1].letters, len(words[-1].coarse)
        for word in reversed(words[:-1]):
            length += len(word.coarse)
            if length > self._longest + len(words):  # a letter may be lost at every join
                return
            pieces = word.letters + pieces
            if word.coarse[:_EDGE] in self._heads:
                yield pieces

    def _is_masked(self, first: Reading, second: Reading) -> bool:
        """Whether two words are an entry without one of its inner letters."""
        if first.coarse[:_EDGE] not in self._heads:
            return False
        before, after = first.merged, second.merged
        return any(before + letter + after in self._maskable for letter in ascii_lowercase)


def _read_entries(
    entries: Sequence[str], seen: set[tuple[str, ...]]
) -> list[tuple[list[Reading], Reading]]:
    """Entries that were not seen yet: the words of each, and all of them as one."""
    phrases = []
    for entry in entries:
        phrase = tuple(filter(None, map(letters, normalise_query(entry).split())))
        if phrase and phrase not in seen:
            seen.add(phrase)
            phrases.append(phrase)
    words = iter(read_many([word for phrase in phrases for word in phrase]))
    joined = read_many(["".join(phrase) for phrase in phrases])
    return [
        (list(islice(words, len(phrase))), word)
        for phrase, word in zip(phrases, joined, strict=True)
    ]


def _heads(begins: set[str]) -> set[str]:
    """What the first piece of a word that is cut up can begin with."""
    heads = set[str]()
    while begins:
        heads |= begins
        begins = {begin[:-1] for begin in begins if len(begin) > 1}
    return heads


def _tails(plain: set[str]) -> set[str]:
    """What the last piece of a word that is cut up, inflected or not, can end with."""
    ends = set(plain)
    bare = {end.removesuffix("e") for end in plain}
    for inflection in map(merged, _INFLECTIONS):
        # As much of the word as can stand in an end, and a letter that both may share.
        stumps = {end[len(inflection) - _EDGE - 1 :] for end in bare}
        ends |= {(s.removesuffix(inflection[0]) + inflection)[-_EDGE:] for s in stumps}
    tails = set[str]()
    while ends:
        tails |= ends
        ends = {end[1:] for end in ends if len(end) > 1}
    return tails


def read_blocklist(path: Path) -> Blocklist:
    """Read a blocklist file; one that is missing, unreadable or empty is an error."""
    try:
        lines = read_plain_text(path, "utf-8-sig", MOST_BYTES).splitlines()
    except OSError as error:
        raise BlocklistError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BlocklistError(f"{path}: not UTF-8 text ({error.reason})") from None
    blocklist = Blocklist(line.split("#", 1)[0] for line in lines)
    if not blocklist:
        raise BlocklistError(
            f"{path}: has no entry; write one word or phrase per line, or leave the blocklist out"
        )
    return blocklist

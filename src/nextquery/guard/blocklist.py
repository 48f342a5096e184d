"""The blocklist: words and phrases that no suggestion may contain.

The file has one word or phrase per line; what follows a `#` is a comment. An entry is found as
whole words, and in the disguises that docs/guards.md promises: read as the eye does, with letters
drawn out, inflected, cut into pieces, with one letter masked, its words joined. Knows nothing of
models; a list never changes, a changed file is a new list.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase

from nextquery.errors import BlocklistError
from nextquery.guard.disguise import (
    Reading,
    draws_out,
    inflects,
    leet,
    merged,
    read_letters,
    read_text,
    read_word,
)

MASKED_LENGTH = 4
"""A masked letter (`f*ck`, normalised to `f ck`) is read into words of so many letters or more."""

_INFLECTIONS = ("s", "es", "ed", "ing", "er", "ers")
_EDGE = 5


class Blocklist:
    """An immutable set of blocked words and phrases.

    >>> Blocklist(["badword"]).blocks("cheap b4d-words online")
    True
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        # In the order of the file: a sort would keep every other thread waiting.
        phrases = dict.fromkeys(filter(None, (tuple(read_text(entry)) for entry in entries)))
        self._count = len(phrases)
        words = [_joined(phrase) for phrase in phrases]
        self._merged = frozenset(word.merged for word in words)
        single = (phrase[0] for phrase in phrases if len(phrase) == 1)
        self._maskable = frozenset(w.merged for w in single if len(w.merged) >= MASKED_LENGTH)
        self._drawn = _index((word.squeezed, word.letters) for word in words)
        self._stems = _index((word.stem, word.letters) for word in words)
        self._phrases = frozenset(tuple(w.stem for w in p) for p in phrases if len(p) > 1)
        self._last_stems = frozenset(stems[-1] for stems in self._phrases)
        self._most_words = max(map(len, self._phrases), default=0)
        self._heads = _heads(word.coarse for word in words)
        self._tails = _tails(word.coarse for word in words)
        longest = max((len(word.letters) for word in words), default=0)
        self._longest = longest + max(map(len, _INFLECTIONS))

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
        entries = self._drawn.get(word.squeezed, ())
        return any(draws_out(word.letters, entry) for entry in entries) or any(
            inflects(word.letters, entry) for entry in self._stems.get(word.stem, ())
        )

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


def _index(pairs: Iterable[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    found: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for key, word in pairs:
        found[key] += (word,)
    return dict(found)


def _joined(phrase: Sequence[Reading]) -> Reading:
    """The words of an entry as one."""
    return phrase[0] if len(phrase) == 1 else read_letters("".join(w.letters for w in phrase))


def _heads(words: Iterable[str]) -> set[str]:
    """What the first piece of a word that is cut up can begin with."""
    begins = {word[:_EDGE] for word in words}
    return {begin[:end] for begin in begins for end in range(1, len(begin) + 1)}


def _tails(words: Iterable[str]) -> set[str]:
    """What the last piece of a word that is cut up, inflected or not, can end with."""
    plain = {word[-_EDGE:] for word in words}
    ends = set(plain)
    for inflection in map(merged, _INFLECTIONS):
        # As much of the word as can stand in an end, and a letter that both may share.
        stumps = {end.removesuffix("e")[len(inflection) - _EDGE - 1 :] for end in plain}
        ends |= {(s.removesuffix(inflection[0]) + inflection)[-_EDGE:] for s in stumps}
    return {end[start:] for end in ends for start in range(len(end))}


def read_blocklist(path: Path) -> Blocklist:
    """Read a blocklist file; one that is missing, unreadable or empty is an error."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
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

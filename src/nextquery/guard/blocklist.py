"""The blocklist: words and phrases that no suggestion may contain.

The file has one word or phrase a line; what follows a `#` is a comment. Matching is on whole words
after `undisguise`. Knows nothing of models; a list never changes, a changed file is a new list.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from nextquery.errors import BlocklistError
from nextquery.guard.disguise import undisguise


class Blocklist:
    """An immutable set of blocked words and phrases."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        phrases = {tuple(undisguise(entry).split()) for entry in entries} - {()}
        self.words: frozenset[str] = frozenset(p[0] for p in phrases if len(p) == 1)
        self._phrases: dict[str, tuple[tuple[str, ...], ...]] = {}
        for phrase in sorted(phrases):
            if len(phrase) > 1:
                self._phrases[phrase[-1]] = (*self._phrases.get(phrase[-1], ()), phrase)

    def __len__(self) -> int:
        return len(self.words) + sum(map(len, self._phrases.values()))

    def blocks(self, text: str) -> bool:
        """Whether `text` contains a blocked word or phrase."""
        words = undisguise(text).split()
        return any(self._ends_blocked(words[: end + 1]) for end in range(len(words)))

    def blocks_word(self, word: str) -> bool:
        """Whether a single word is blocked by itself, whatever stands before it."""
        return not self.words.isdisjoint(undisguise(word).split())

    @property
    def has_phrases(self) -> bool:
        """Whether any entry has more than one word."""
        return bool(self._phrases)

    def ends_phrase(self, word: str) -> bool:
        """Whether a single word is the last of a blocked phrase."""
        return any(part in self._phrases for part in undisguise(word).split())

    def blocks_last(self, words: Sequence[str]) -> bool:
        """Whether the last of `words` is blocked or completes a blocked phrase."""
        return self._ends_blocked(undisguise(" ".join(words)).split())

    def _ends_blocked(self, words: Sequence[str]) -> bool:
        if not words:
            return False
        if words[-1] in self.words:
            return True
        phrases = self._phrases.get(words[-1], ())
        return any(tuple(words[-len(phrase) :]) == phrase for phrase in phrases)


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
            f"{path}: has no entry; write one word or phrase a line, or leave the blocklist out"
        )
    return blocklist

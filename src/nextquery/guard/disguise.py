"""Reading a disguised word, for comparing only, never for showing.

`letters` reads a word as the eye does: without case, accents, look-alikes of other scripts and
leetspeak. A `Reading` has what is left when more is taken away: letters that cannot be told apart
(`i` and `l`), letters drawn out, an inflection. Both sides of a comparison must go through it.
Knows no blocklist.
"""

import re
import threading
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import Stemmer

from nextquery.guard.lookalikes import look_alikes
from nextquery.normalise import normalise_query

LONG_WORD = 5
"""From so many letters on, doubling one is a disguise; in shorter words tripling one is.

`shoot` and `shot` are two words, `shooot` is none.
"""

_LEET = str.maketrans("0123456789", "oizeasgtbg")
_MERGED = str.maketrans("i", "l")
_REPEATED = re.compile(r"(.)\1+")
_stemmers = threading.local()
_TATWEEL = 0x0640
"""Draws an Arabic word out and means nothing."""
_FINAL_CONSONANTS = range(0x11A8, 0x11C3)


class Reading(NamedTuple):
    """A word, and what it is compared by.

    >>> read_letters("baadwoords").squeezed, read_letters("baadwoords").stem
    ('badwords', 'badword')
    """

    letters: str
    merged: str
    """With `l` for every `i`."""
    squeezed: str
    """With every run of one letter as that letter, then merged: `public` is not `pubic`.

    Of a number, like `coarse`, what it would read as next to letters.
    """
    stem: str
    """Without its English inflection, every run as one letter."""
    coarse: str
    """Merged, then squeezed: equal wherever any of the other forms is, but for inflections."""


@lru_cache(maxsize=16384)
def read_word(word: str) -> Reading:
    """The reading of a word of a normalised query."""
    return read_letters(letters(word))


def read_letters(word: str) -> Reading:
    """The reading of a word that `letters` has read, or of several joined."""
    once = _REPEATED.sub(r"\1", word.translate(_LEET)).translate(_MERGED)
    base = _REPEATED.sub(r"\1", stem(word))
    return Reading(word, merged(word), once, base, _REPEATED.sub(r"\1", once))


def read_many(words: Sequence[str]) -> list[Reading]:
    """What `read_letters` says of each word, many times as quickly for a long list.

    >>> read_many(["baadwoords", "455"]) == [read_letters("baadwoords"), read_letters("455")]
    True
    """
    if not words:
        return []
    text = "\n".join(words)
    once = _squeezed(text.translate(_LEET)).translate(_MERGED)
    base = _squeezed("\n".join(_stemmer().stemWords(list(words))))
    columns = (merged(text), once, base, _squeezed(once))
    return list(
        map(Reading._make, zip(words, *(each.split("\n") for each in columns), strict=True))
    )


def _squeezed(text: str) -> str:
    """Every run of one character as that character; lines stay apart."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    first = np.ones(len(codes), np.bool_)
    first[1:] = (codes[1:] != codes[:-1]) | (codes[1:] == ord("\n"))
    return codes[first].tobytes().decode("utf-32-le")


def read_text(text: str) -> list[Reading]:
    """The readings of the words of any text.

    >>> [word.letters for word in read_text("B4d w\u200bö\u200brd")]
    ['bad', 'word']
    """
    return [read for read in map(read_word, normalise_query(text).split()) if read.letters]


def letters(word: str) -> str:
    """A word of a normalised query as it reads to the eye.

    >>> letters("bädw0rd"), letters("bаdwоrd"), letters("455")
    ('badword', 'badword', '455')
    """
    return leet(word if word.isascii() else _plain(word))


def leet(word: str) -> str:
    """Digits read as letters, except in a word of digits alone: `455` is a number."""
    return word if word.isalpha() or word.isdigit() else word.translate(_LEET)


def _plain(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word)
    bare = "".join(c for c in decomposed if unicodedata.category(c)[0] in "LN")
    return bare if bare.isascii() else bare.translate(look_alikes()).translate(_other_scripts())


@cache
def _other_scripts() -> dict[int, str | None]:
    """What is not drawn in Arabic, and Korean consonants by themselves, wherever they stand.

    A syllable ends in other code points than it begins with; typed letter by letter it does not.
    """
    table: dict[int, str | None] = {_TATWEEL: None}
    for code in _FINAL_CONSONANTS:
        parts = unicodedata.name(chr(code)).removeprefix("HANGUL JONGSEONG ").split("-")
        table[code] = "".join(unicodedata.lookup(f"HANGUL CHOSEONG {part}") for part in parts)
    return table


def merged(word: str) -> str:
    """The word with `l` for every `i`, which cannot be told apart in all typefaces."""
    return word.translate(_MERGED)


def stem(word: str) -> str:
    """The word without its English inflection, by the Snowball stemmer.

    >>> stem("badwords"), stem("badwording")
    ('badword', 'badword')
    """
    found: str = _stemmer().stemWord(word)
    return found


def _stemmer() -> Any:
    """One for each thread: a stemmer works in a space of its own."""
    stemmer = getattr(_stemmers, "english", None)
    if stemmer is None:
        stemmer = _stemmers.english = Stemmer.Stemmer("english", 0)
    return stemmer


def draws_out(word: str, plain: str) -> bool:
    """Whether `word` is `plain` with letters repeated, given that both have the same squeezed form.

    A number has the squeezed form of what it reads as, but is drawn out by nothing.

    >>> draws_out("shooot", "shot"), draws_out("shoot", "shot"), draws_out("refer", "reefer")
    (True, False, False)
    >>> draws_out("g", "69")
    False
    """
    runs, kept = _runs(word), _runs(plain)
    same = [merged(letter) for letter, _ in runs] == [merged(letter) for letter, _ in kept]
    return same and _runs_drawn_out(runs, kept)


def inflects(word: str, plain: str) -> bool:
    """Whether `word` goes on where `plain` ends, given that both have the same stem.

    A final `e` or `y` may change, the last letter be doubled.

    >>> inflects("badwords", "badword"), inflects("riding", "ride"), inflects("test", "teste")
    (True, True, False)
    """
    kept = _runs(plain[:-1] if plain.endswith(("e", "y")) else plain)
    begun = _runs(word)[: len(kept)]
    same = [letter for letter, _ in begun] == [letter for letter, _ in kept]
    return len(word) >= len(plain) and same and _runs_drawn_out(begun[:-1], kept[:-1])


def _runs_drawn_out(runs: list[tuple[str, int]], plain: list[tuple[str, int]]) -> bool:
    enough = 2 if len(runs) >= LONG_WORD else 3
    return all(
        run == length or run >= max(enough, length)
        for (_, run), (_, length) in zip(runs, plain, strict=True)
    )


def _runs(word: str) -> list[tuple[str, int]]:
    """The runs of one letter: the letter and how many."""
    return [(letter, len(list(same))) for letter, same in groupby(word)]

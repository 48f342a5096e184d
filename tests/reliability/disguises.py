"""Disguises of blocked words and phrases, by class; every variant is made by a rule, none by hand.

Look-alikes are drawn from Unicode's table of confusable characters, at random.
"""

import json
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files

WORDS = (
    "badword", "zankerfluff", "gribbet", "plomster", "rudeness", "vilecraft", "snoddle", "quaggy",
    "blasphomy", "ferkin", "moggart", "skivvel", "dratwick", "yobbish", "grumbase", "spattle",
    "volganic", "crassimo", "wunterlich",
)  # fmt: skip
PHRASES = ("make a bomb", "steal his wallet", "grow red moss", "hurt small dogs")
SHORT = ("zarb", "fligg")
OTHER_SCRIPTS = {
    "Cyrillic": ("плохослово", "грубость"),
    "Greek": ("κακολογία", "βλασφημίες"),
    "Arabic": ("كلمةسيئة", "شتيمة"),
    "Hebrew": ("מילהרעה", "גסותרוח"),
    "Hangul": ("나쁜단어", "욕설말"),
}
"""Invented words and harmless ones, as good as any to be blocked."""
BLOCKED = (*WORDS, *SHORT, *PHRASES, *(w for words in OTHER_SCRIPTS.values() for w in words))
_LATIN = (*WORDS, *SHORT, *PHRASES)

_INVISIBLE = {
    "zero-width characters": "\u200b\u200d\u2060\ufeff\u180e\u034f",
    "soft hyphens": "\u00ad",
    "bidirectional marks": "\u200e\u200f\u202a\u202e\u2066\u2069\u061c",
}
_LEET = {"a": "4", "b": "8", "e": "3", "g": "9", "i": "1", "l": "1", "o": "0", "s": "5", "t": "7"}
_ACCENTS = "\u0300\u0301\u0302\u0308\u0327\u0336"
_ALPHABETS = (0xFF41, 0x1D41A, 0x1D5BA, 0x1D552, 0x24D0)

Rng = random.Random
Disguise = Callable[[str, Rng], Iterator[str]]


def variants(quick: bool) -> Iterator[tuple[str, str, str]]:
    """(class, blocked entry, disguise); a quarter of the entries in the quick form."""
    rng = random.Random(13)
    for name, disguise in CLASSES.items():
        for entry in _LATIN[:: 4 if quick else 1]:
            for text in dict.fromkeys(disguise(entry, rng)):
                if text != entry:
                    yield name, entry, text
    for script, words in OTHER_SCRIPTS.items():
        for entry in words[:: 2 if quick else 1]:
            for text in dict.fromkeys(_in_script(script, entry, rng)):
                yield f"{script} script", entry, text


def _case(entry: str, rng: Rng) -> Iterator[str]:
    yield entry.upper()
    yield entry.title()
    for _ in range(4):
        yield "".join(rng.choice((c, c.upper())) for c in entry)


def _accents(entry: str, rng: Rng) -> Iterator[str]:
    for mark in _ACCENTS:
        index = _inside(entry, rng)
        yield unicodedata.normalize("NFC", entry[:index] + mark + entry[index:])


def _invisible(characters: str) -> Disguise:
    def insert(entry: str, rng: Rng) -> Iterator[str]:
        for character in characters:
            index = _inside(entry, rng)
            yield entry[:index] + character + entry[index:]
            yield character.join(entry)

    return insert


def _alphabets(entry: str, rng: Rng) -> Iterator[str]:
    for first in _ALPHABETS:
        yield "".join(chr(first + ord(c) - 97) if c != " " else c for c in entry)


def _look_alikes(entry: str, rng: Rng) -> Iterator[str]:
    twins = _twins()
    for count in (1, 1, 2, 2, 3, 3, 4, 4, 5, 5):
        letters = list(entry)
        for index in rng.sample(range(len(letters)), min(count, len(letters))):
            letters[index] = rng.choice(twins.get(letters[index], letters[index]))
        yield "".join(letters)


def _twins() -> dict[str, Sequence[str]]:
    """The confusable letters of each Latin letter, as the table gives them."""
    text = (files("confusable_homoglyphs") / "confusables.json").read_text(encoding="utf-8")
    return {
        letter: [other["c"] for other in twins if _stays(other["c"], letter)] or letter
        for letter, twins in json.loads(text).items()
        if letter.isascii() and letter.islower()
    }


def _stays(twin: str, letter: str) -> bool:
    """Whether a twin is one letter, and not by its nature another one (a long s drawn as f)."""
    nature = unicodedata.normalize("NFKC", twin).lower()
    same = not nature.isascii() or nature == letter or {nature, letter} == {"i", "l"}
    return len(twin) == 1 and twin.isalpha() and same


def _leet(entry: str, rng: Rng) -> Iterator[str]:
    yield "".join(_LEET.get(c, c) for c in entry)
    for letter, digit in _LEET.items():
        yield entry.replace(letter, digit)


def _symbols(entry: str, rng: Rng) -> Iterator[str]:
    """`@` and `$` inside a word."""
    for letter, symbol in (("a", "@"), ("s", "$")):
        for index, character in enumerate(entry[1:-1], 1):
            around = entry[index - 1] + entry[index + 1]
            if character == letter and " " not in around:
                yield entry[:index] + symbol + entry[index + 1 :]


def _masked(entry: str, rng: Rng) -> Iterator[str]:
    if " " not in entry:
        for index in range(1, len(entry) - 1):
            yield entry[:index] + rng.choice("*#!._-?") + entry[index + 1 :]


def _spaced(entry: str, rng: Rng) -> Iterator[str]:
    yield " ".join(entry.replace(" ", ""))
    yield "  ".join(entry)


def _dotted(entry: str, rng: Rng) -> Iterator[str]:
    for mark in "._-*/":
        yield mark.join(entry.replace(" ", ""))
        yield " ".join(mark.join(word) for word in entry.split())


def _hyphen(entry: str, rng: Rng) -> Iterator[str]:
    for index in range(1, len(entry)):
        if " " not in entry[index - 1 : index + 1]:
            yield f"{entry[:index]}-{entry[index:]}"


def _repeated(entry: str, rng: Rng) -> Iterator[str]:
    long = len(set(entry)) >= 6
    for _ in range(5):
        index = rng.randrange(len(entry))
        times = rng.choice((2, 3, 5)) if long else rng.choice((3, 5))
        yield entry[:index] + entry[index] * times + entry[index + 1 :]
    yield "".join(c * 3 for c in entry)


def _joined(entry: str, rng: Rng) -> Iterator[str]:
    words = entry.split()
    for index in range(1, len(words)):
        yield " ".join([*words[: index - 1], words[index - 1] + words[index], *words[index + 1 :]])
    yield "".join(words)


def _inflected(entry: str, rng: Rng) -> Iterator[str]:
    *first, last = entry.split()
    bare = last.removesuffix("e")
    if last.endswith("ss") or not last.endswith("s"):
        yield " ".join([*first, last + ("es" if last.endswith("s") else "s")])
    if not last.endswith(("s", "y", "ish")):
        yield from (" ".join([*first, bare + ending]) for ending in ("ed", "ing"))


def _inside_a_query(entry: str, rng: Rng) -> Iterator[str]:
    yield f"cheap {entry} online"
    yield f"what is {entry}"
    yield f"{entry} near me"


_MARKS = {
    "Cyrillic": "\u0301\u0308\u0483",
    "Greek": "\u0301\u0342\u0313",
    "Arabic": "\u064e\u064f\u0650\u0651\u0652\u0640",
    "Hebrew": "\u05b4\u05b8\u05bc",
    "Hangul": "",
}
"""Stresses, breathings, vowel signs and what only draws a word out."""


def _in_script(script: str, entry: str, rng: Rng) -> Iterator[str]:
    """Disguises of a word that is not in Latin letters: all but those made of Latin letters."""
    yield from _inside_a_query(entry, rng)
    yield from _invisible("\u200b\u200d\u00ad\u200f\u2066")(entry, rng)
    yield from _spaced(entry, rng)
    yield from _dotted(entry, rng)
    yield from _hyphen(entry, rng)
    yield unicodedata.normalize("NFD", entry)
    for mark in _MARKS[script]:
        index = _inside(entry, rng)
        yield entry[:index] + mark + entry[index:]
        yield mark.join(entry)
    if script in ("Cyrillic", "Greek"):
        yield from _case(entry, rng)
        yield "".join(c for c in unicodedata.normalize("NFD", entry) if c.isalpha())
    if script == "Hangul":
        for table in (_COMPATIBILITY, _HALF_WIDTH):
            yield "".join(table.get(c, c) for c in unicodedata.normalize("NFD", entry))


def _letters_of(name: str) -> dict[str, str]:
    """Korean letters by themselves, in the place of those that make up a syllable."""
    letters: dict[str, str] = {}
    for code in (*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A8, 0x11C3)):
        letter = unicodedata.name(chr(code)).rpartition(" ")[2]
        try:
            letters[chr(code)] = unicodedata.lookup(f"{name} {letter}")
        except KeyError:  # clusters have no letter of their own in half width
            continue
    return letters


_COMPATIBILITY = _letters_of("HANGUL LETTER")
_HALF_WIDTH = _letters_of("HALFWIDTH HANGUL LETTER")


def _inside(entry: str, rng: Rng) -> int:
    return rng.choice([p for p in range(1, len(entry)) if " " not in entry[p - 1 : p + 1]])


CLASSES: dict[str, Disguise] = {
    "inside a longer query": _inside_a_query,
    "case": _case,
    "accents": _accents,
    **{name: _invisible(characters) for name, characters in _INVISIBLE.items()},
    "other alphabets (full width, mathematical)": _alphabets,
    "look-alike letters (Unicode's table)": _look_alikes,
    "digits for letters": _leet,
    "@ and $ inside a word": _symbols,
    "one masked letter": _masked,
    "spaced letters": _spaced,
    "dotted letters": _dotted,
    "one hyphen": _hyphen,
    "repeated letters": _repeated,
    "joined words": _joined,
    "inflections (English)": _inflected,
}
"""How each class of disguises is made."""
PROMISED = (*CLASSES, *(f"{script} script" for script in OTHER_SCRIPTS))
"""The classes by name, in the order of the table."""

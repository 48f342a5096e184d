"""Undoing the disguises of a word: accents, zero-width characters, look-alike letters, leetspeak.

Knows characters only. `undisguise` is for comparing, never for showing: it also merges letters that
cannot be told apart (`i`, `l`, `1`), so both sides of a comparison must go through it.
"""

import unicodedata
from functools import lru_cache

from nextquery.normalise import normalise_query

_DRAWN_AS = {
    "a": "аαɑ@",
    "b": "вβ",
    "c": "сϲ",
    "d": "ԁđ",
    "e": "еєε€",
    "g": "ɡ",
    "h": "һнħ",
    "i": "іιıɩ!¡",
    "j": "ј",
    "k": "кκ",
    "l": "łʟ|£",
    "m": "м",
    "n": "η",
    "o": "оοøσ",
    "p": "рρ",
    "q": "ԛ",
    "s": "ѕ$",
    "t": "тτ",
    "u": "υμ",
    "v": "ѵν",
    "w": "ԝω",
    "x": "хχ",
    "y": "уγ",
}
"""Latin letters, and the characters of other scripts and keys that are drawn much like them."""

_LOOK_ALIKES = str.maketrans({twin: key for key, twins in _DRAWN_AS.items() for twin in twins})
_LEET = str.maketrans("0123456789i", "olzeasgtbgl")


@lru_cache(maxsize=65536)
def undisguise(text: str) -> str:
    """The words of `text` as they read to the eye, joined by single spaces."""
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    decomposed = unicodedata.normalize("NFKD", visible.casefold())
    bare = "".join(c for c in decomposed if unicodedata.category(c) not in ("Mn", "Me"))
    return " ".join(_read(word) for word in normalise_query(bare.translate(_LOOK_ALIKES)).split())


def _read(word: str) -> str:
    """Digits read as letters, except in a word of digits alone: `455` is a number."""
    return word if word.isdigit() else word.translate(_LEET)

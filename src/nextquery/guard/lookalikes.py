"""Which characters are drawn like a Latin letter.

By Unicode's table of confusable characters (UTS 39, as kept in the package confusable-homoglyphs),
by the names of small capitals, and by a few likenesses that the table leaves out.
"""

import json
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

_ALSO_DRAWN_AS = {
    "a": "α",
    "b": "вβ",
    "c": "ς",
    "e": "єε",
    "h": "н",
    "k": "кκ",
    "m": "м",
    "n": "η",
    "t": "тτ",
    "u": "μ",
    "w": "ω",
    "x": "χ",
    "y": "уγ",
}
"""Likenesses of other scripts that Unicode's table does not give, or gives to a small capital."""

_SMALL_CAPITAL = "LATIN LETTER SMALL CAPITAL "


@cache
def look_alikes() -> Mapping[int, str]:
    """A table for `str.translate`: code points outside ASCII and the Latin letters they look like.

    Read from its file when it is first asked for.

    >>> "раураl".translate(look_alikes())  # five Cyrillic letters and one Latin
    'paypal'
    """
    table = {
        ord(character): letter
        for group in _groups()
        for letter in _letter_of(group)
        for character in group
        if len(character) == 1 and not character.isascii()
    }
    lowered = {ord(chr(code).lower()): letter for code, letter in table.items() if _one(code)}
    also = {ord(c): letter for letter, others in _ALSO_DRAWN_AS.items() for c in others}
    return lowered | table | also


def _one(code: int) -> bool:
    return len(chr(code).lower()) == 1 and not chr(code).lower().isascii()


def _groups() -> Iterable[set[str]]:
    """Sets of characters (some of two letters, such as `rn` for `m`) that look like each other."""
    text = (files("confusable_homoglyphs") / "confusables.json").read_text(encoding="utf-8")
    group_of: dict[str, set[str]] = {}
    for character, others in json.loads(text).items():
        joined = {character}
        for name in (character, *(other["c"] for other in others)):
            joined |= group_of.get(name, {name})
        for name in joined:
            group_of[name] = joined
    return {id(group): group for group in group_of.values()}.values()


def _letter_of(group: Iterable[str]) -> list[str]:
    """The Latin letter that a group looks like, if it does; small letters before capitals."""
    found = [(name.isupper(), name.lower()) for name in map(_bare, group)]
    letters = sorted(each for each in found if len(each[1]) == 1 and "a" <= each[1] <= "z")
    return [letters[0][1]] if letters else []


def _bare(name: str) -> str:
    """A name of the table without marks; a small capital as its letter."""
    spelled = unicodedata.name(name, "") if len(name) == 1 else ""
    if spelled.startswith(_SMALL_CAPITAL):
        return spelled.removeprefix(_SMALL_CAPITAL).lower()
    decomposed = unicodedata.normalize("NFKD", name)
    return "".join(c for c in decomposed if unicodedata.category(c) not in ("Mn", "Me"))

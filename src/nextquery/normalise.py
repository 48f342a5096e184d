"""The one place where query text is normalised, so that every engine and model agrees.

Knows Unicode and nothing else. Letters, digits and combining marks of every script survive; an
apostrophe inside a word is dropped (`bj's` -> `bjs`), every other character separates words.
"""

import re
import unicodedata

_APOSTROPHES = re.compile(r"['’ʼ＇`]")
_ASCII_SEPARATORS = re.compile(r"[^a-z0-9]+")


def normalise_query(text: str) -> str:
    """Return the query lower-cased, without punctuation, its words joined by single spaces."""
    if text.isascii():
        lowered = _APOSTROPHES.sub("", text.lower())
        return _ASCII_SEPARATORS.sub(" ", lowered).strip()
    composed = unicodedata.normalize("NFKC", text)
    lowered = unicodedata.normalize("NFKC", composed.lower())
    kept = "".join(
        character if unicodedata.category(character)[0] in "LNM" else " "
        for character in _APOSTROPHES.sub("", lowered)
    )
    # What an apostrophe kept apart may compose now: the result must be a fixed point.
    return " ".join(unicodedata.normalize("NFKC", kept).split())

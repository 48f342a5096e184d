"""The one place where query text is normalised, so that every engine and model agrees.

Knows Unicode and nothing else. Letters, digits and combining marks of every script survive; an
apostrophe inside a word is dropped (`bj's` -> `bjs`), and so is every character that draws nothing
(zero-width and bidirectional marks, soft hyphens). `@` and `$` between two letters are read as `a`
and `s` (`ke$ha` -> `kesha`), unless a dot follows as in a mail address. Every other character
separates words, and so do the ends of words in scripts without spaces (`word_breaks.py`).
"""

import re
import unicodedata

from nextquery.word_breaks import break_words

_APOSTROPHES = re.compile(r"['’ʼ＇`]")
_ASCII_SEPARATORS = re.compile(r"[^a-z0-9]+")
_SYMBOLS = re.compile(r"(?<=[^\W\d_])[@$]+(?=[^\W\d_])(?![\w-]*\.\w)")
_READ_AS = str.maketrans("@$", "as")

# Unicode's Default_Ignorable_Code_Point, beside the format characters (category Cf).
_DRAWS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
_NON_JOINER = "\u200c"
_PERSIAN_NON_JOINER = re.compile("(?<=[\u0600-\u06ff])\u200c(?=[\u0600-\u06ff])")


def normalise_query(text: str) -> str:
    """Return the query lower-cased, without punctuation, its words joined by single spaces.

    >>> normalise_query("Bj's Wholesale--Club"), normalise_query("zero\u200bwidth")
    ('bjs wholesale club', 'zerowidth')
    """
    if text.isascii():
        return _ASCII_SEPARATORS.sub(" ", _without_symbols(text.lower())).strip()
    composed = unicodedata.normalize("NFKC", _without_invisible(text))
    lowered = unicodedata.normalize("NFKC", composed.lower())
    kept = "".join(
        character if unicodedata.category(character)[0] in "LNM" else " "
        for character in _without_symbols(_without_invisible(lowered))
    )
    # What an apostrophe kept apart may compose now: the result must be a fixed point.
    return break_words(" ".join(unicodedata.normalize("NFKC", kept).split()))


def _without_symbols(text: str) -> str:
    """Without apostrophes, and with the letters that `@` and `$` stand for inside a word."""
    bare = _APOSTROPHES.sub("", text)
    if "@" not in bare and "$" not in bare:
        return bare
    return _SYMBOLS.sub(lambda found: found[0].translate(_READ_AS), bare)


def _without_invisible(text: str) -> str:
    """Without what draws nothing; a non-joiner inside a Persian word separates, as a blank does."""
    if _NON_JOINER in text:
        text = _PERSIAN_NON_JOINER.sub(" ", text)
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return _DRAWS_NOTHING.sub("", visible)

"""What looks like personal data in a query, and how users are made into pseudonyms.

Knows patterns, not people: mail addresses, phone, card and social security numbers, long digit
strings. Works on the text as typed and on normalised text, where punctuation became spaces.
"""

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_DIGIT_PATTERNS = (
    r"\d{9,}",  # account, tracking, passport numbers
    r"(?<!\d)\d{3}[ -]\d{2}[ -]\d{4}(?!\d)",  # social security number
    r"(?<!\d)(?:\d{4}[ -]?){3}\d{1,7}(?!\d)",  # card number in groups of four
    r"(?<!\d)\d{4}[ -]\d{6}[ -]\d{4,5}(?!\d)",  # card number in groups of 4, 6 and 5
    r"(?<!\d)\(?\d{3}\)?[ ./-]{0,2}\d{3}[ ./-]\d{4}(?!\d)",  # phone with area code
    r"(?<![\d-])\d{3}-\d{4}(?![\d-])",  # phone without area code
    r"(?<!\d)0\d{2,4}[ /-]\d{3,4}[ -]?\d{3,4}(?!\d)",  # national phone with a trunk zero
    r"\+(?:\d[ ()./-]{0,3}){8,14}",  # international phone
)
_MAIL_ONLY = "gmail|googlemail|hotmail|rocketmail|ymail|protonmail"
_MAIL_AND_MORE = "yahoo|aol|msn|live|outlook|icloud|comcast|verizon|att|sbcglobal|bellsouth"
_NOT_A_NAME = "www|http|https|mail|email|login|my|the|to|go|in|open|of|new|signin|welcome|com"
_MAIL_PATTERNS = (
    r"[^\s@]@[^\s@]{2}",
    # The at sign is gone from normalised text: a name before a mail host is what is left of it.
    rf"(?<!\w)(?!(?:{_NOT_A_NAME})\W)\w+[ .]+(?:{_MAIL_ONLY})[ .]+\w+",
    rf"(?<!\w)\w*\d\w*[ .]+(?:{_MAIL_AND_MORE})[ .]+(?:com|net|org)(?!\w)",
)
_PERSONAL = re.compile("|".join((*_DIGIT_PATTERNS, *_MAIL_PATTERNS)))

SUSPECT = rf"(?i)@|[^\x00-\x7f]|(?:[0-9][^0-9]{{0,3}}){{7}}|{_MAIL_ONLY}|{_MAIL_AND_MORE}"
"""Matches every text that `looks_personal` accepts and few others: a filter before it."""


def looks_personal(text: str) -> bool:
    """Whether a raw or normalised query looks like somebody's personal data."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _PERSONAL.search(plain.lower()) is not None


def mark_personal(texts: "pl.Series") -> "pl.Series":
    """`looks_personal` of every text, called only where the quick pattern matches."""
    import polars as pl  # not above: a guard that serves needs the patterns alone

    suspects = texts.str.contains(SUSPECT)
    found = [index for index, text in _numbered(texts, suspects) if looks_personal(text)]
    marks = pl.repeat(False, len(texts), eager=True)
    return marks.scatter(found, True) if found else marks


def _numbered(texts: "pl.Series", where: "pl.Series") -> list[tuple[int, str]]:
    indices = where.arg_true()
    return list(zip(indices.to_list(), texts.gather(indices).to_list(), strict=True))


USER_BITS = 63


def pseudonym(user: str) -> int:
    """The user's md5 as a 63-bit number: the same in every engine, and evenly spread.

    It keeps a raw user id out of the data folder. It is no anonymisation: who knows all ids can
    compute all pseudonyms.
    """
    digest = hashlib.md5(user.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - USER_BITS)


def pseudonyms(batch: "pl.DataFrame") -> "pl.DataFrame":
    """The pseudonym of every `user` of a batch."""
    import polars as pl

    numbers = [pseudonym(user) for user in batch["user"].to_list()]
    return batch.select("user_id", pl.Series("user", numbers, dtype=pl.Int64))

"""What looks like personal data in a query, and how users are made into pseudonyms.

Knows patterns, not people. `looks_personal` works on normalised text, too, where punctuation became
spaces: mail addresses, phone, card and social security numbers, long digit strings. What only the
text as typed tells is in `recognisers.py`.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING

from nextquery.errors import InputError

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
_MAIL_ONLY = "gmail|googlemail|hotmail|rocketmail|ymail|protonmail|gmx"
_MAIL_AND_MORE = "yahoo|aol|msn|live|outlook|icloud|comcast|verizon|att|sbcglobal|bellsouth"
_TOP_LEVEL = "com|net|org|edu|de|fr|it|es|nl|at|ch|be|se|pl|ru|ca|us|co|uk|in|br|jp|me"
_NOT_A_NAME = (
    "www|https?|e?mail|log|login|my|the|to|go|in|into|open|of|new|sign|signin|signup|welcome|com|"
    "free|forgot|create|check|inbox|account|password|address|from|for|with|at|is|on|a|and|or|use"
)
_MAIL_PATTERNS = (
    r"[^\s@]@[^\s@]{2}",
    r"\w @ ?[\w-]+\.\w{2}",
    r"\w ?[\[(]at[\])] ?\w",
    rf"\w at [\w-]+ dot (?:{_TOP_LEVEL})(?!\w)",
    # The at sign is gone from normalised text: a name before a mail host is what is left of it.
    rf"(?<!\w)(?!(?:{_NOT_A_NAME})\W)\w+[ .]+(?:{_MAIL_ONLY})[ .]+(?:{_TOP_LEVEL})(?!\w)",
    rf"(?<!\w)\w*\d\w*[ .]+(?:{_MAIL_AND_MORE})[ .]+(?:com|net|org)(?!\w)",
)
LONGEST_QUERY = 1000
"""A longer text is no query but something pasted, such as a letter: taken for personal unread. The
patterns would need time that grows with the square of its length."""
_PERSONAL = re.compile("|".join((*_DIGIT_PATTERNS, *_MAIL_PATTERNS)))

SUSPECT = (
    r"(?i)@|[^\x00-\x7f]|(?:[0-9][^0-9]{0,3}){7}| dot |[\[(]at[\])]|"
    rf"(?:{_MAIL_ONLY}|{_MAIL_AND_MORE})[ .]"
)
"""Matches every text that `looks_personal` accepts and few others: a filter before it."""

Recogniser = Callable[[str], bool]
"""Says of a query as typed whether it holds personal data: a site's own rule beside these."""


def looks_personal(text: str) -> bool:
    """Whether a raw or normalised query looks like somebody's personal data."""
    return len(text) > LONGEST_QUERY or _PERSONAL.search(_plain(text).lower()) is not None


def looks_personal_typed(text: str) -> bool:
    """Whether a query as typed does, by all that its punctuation tells, too."""
    from nextquery.logs.stages.recognisers import recognise  # many patterns; a guard needs none

    return looks_personal(text) or recognise(_plain(text))


def _plain(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def mark_personal(texts: "pl.Series") -> "pl.Series":
    """`looks_personal` of every normalised text, called only where the quick pattern matches."""
    return _marked(texts, SUSPECT, looks_personal)


def mark_personal_typed(texts: "pl.Series", also: Recogniser | None = None) -> "pl.Series":
    """`looks_personal_typed` of every text as typed; `also`, a second rule, is asked for all."""
    from nextquery.logs.stages.recognisers import CLUES

    marks = _marked(texts, f"{SUSPECT}|{CLUES}", looks_personal_typed)
    if also is None:
        return marks
    try:
        return marks | _marked(texts, "", also)
    except Exception as error:  # the message of an error may quote the query
        name = recogniser_name(also)
        raise InputError(f"`recogniser` {name}: failed with {type(error).__name__}") from None


def recogniser_name(recogniser: Recogniser) -> str:
    """Module and name of a recogniser, for the manifest and messages."""
    named = recogniser if hasattr(recogniser, "__qualname__") else type(recogniser)
    return f"{named.__module__}:{named.__qualname__}"


def find_recogniser(place: str) -> Recogniser:
    """The function that `module:function` names."""
    module, _, name = place.partition(":")
    try:
        found = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"`recogniser` {place}: cannot be imported ({error})") from None
    if not callable(found):
        raise InputError(f"`recogniser` {place}: is no function from a query to true or false")
    recogniser: Recogniser = found
    return recogniser


def _marked(texts: "pl.Series", suspect: str, rule: Recogniser) -> "pl.Series":
    import polars as pl  # not above: a guard that serves needs the patterns alone

    suspected = texts.str.contains(suspect) | (texts.str.len_chars() > LONGEST_QUERY)
    found = [index for index, text in _numbered(texts, suspected) if rule(text)]
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

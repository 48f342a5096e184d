"""Personal data in queries: recognisers, check digits, and pseudonyms of users."""

import hashlib
import inspect
import ipaddress
import re
import sys
import unicodedata
from collections.abc import Callable
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from nextquery.errors import InputError

if TYPE_CHECKING:
    import polars as pl


def has_checked_number(text: str) -> bool:
    """Whether an upper-cased text has a number whose form and check digits are right.

    >>> has_checked_number("IBAN GB82 WEST 1234 5698 7654 32"), has_checked_number("GB82 WEST 1234")
    (True, False)
    """
    return any(
        _is_valid(standard, number[0])
        for pattern, standard in _NUMBERS
        for number in pattern.finditer(text)
    )


def _is_valid(standard: str, number: str) -> bool:
    """Whether `stdnum.STANDARD` accepts a number; without a standard its form is enough."""
    if not standard:
        return True
    checked = import_module(f"stdnum.{standard}")  # small, and few texts come here
    if standard in _WITH_SEPARATORS:
        return bool(checked.is_valid(number))
    plain = re.sub(r"[^0-9A-Z]", "", number)
    if standard == "luhn":
        return len(set(plain)) > 1 and bool(checked.is_valid(plain))
    if standard == "iban":  # what follows may not be a part of it
        lengths = range(_SHORTEST_IBAN, len(plain) + 1)
        return any(checked.is_valid(plain[:length], check_country=False) for length in lengths)
    return bool(checked.is_valid(plain))


_SHORTEST_IBAN = 15
_WITH_SEPARATORS = ("fi.hetu", "se.personnummer")
"""Numbers whose separator is a part of them: it gives the century."""
_FORMS = (
    (r"(?:\d[ .-]?){12,18}\d", "luhn"),  # cards
    (r"[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{2,4}){3,9}", "iban"),
    (r"\d{3}[ .]?\d{3}[ .]?\d{3}-?\d{2}", "br.cpf"),
    (r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}", "fr.nir"),
    (r"\d{8}[ -]?[A-Z]", "es.dni"),
    (r"[XYZ]-?\d{7}[ -]?[A-Z]", "es.nie"),
    (r"\d{6}[-+A]\d{3}[0-9A-Y]", "fi.hetu"),
    (r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}", "ch.ssn"),
    (r"\d{6} ?(?:19|20)\d{6} ?\d{3}[0-9X]", "cn.ric"),
    (r"[2-9]\d{3}[ -]\d{4}[ -]\d{4}", "in_.aadhaar"),
    (r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", "it.codicefiscale"),
    (r"(?:19|20)?\d{2}(?:0[1-9]|1[0-2])[0-3]\d[-+]\d{4}", "se.personnummer"),
    (r"[0-3]\d(?:0[1-9]|1[0-2])\d{2}-\d{4}", "dk.cpr"),
    (r"\d{3}[ -]\d{3}[ -]\d{3}", "ca.sin"),
    (r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]", ""),  # Britain
    (r"[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]", "in_.pan"),
    (r"[A-Z]{4}\d{2}(?:0[1-9]|1[0-2])[0-3]\d[HM][A-Z]{5}[0-9A-Z]\d", "mx.curp"),
)
_NUMBERS = tuple(
    (re.compile(rf"(?<![0-9A-Z]){form}(?![0-9A-Z])"), standard) for form, standard in _FORMS
)
"""How each number is written, and the module of `stdnum` that checks it."""


REGIONS = (
    "US", "GB", "DE", "FR", "IT", "ES", "NL", "BE", "CH", "AT", "SE", "PL", "PT", "IE", "AU", "NZ",
    "IN", "JP", "KR", "CN", "BR", "MX", "AR", "ZA", "RU", "UA", "TR", "GR", "IL", "CZ",
)  # fmt: skip
"""Regions whose national phone numbers are recognised; `+` and a country code work for all."""

_PHONE_WORD = r"\b(?:tel|telephone|phone|fax|mobile|cell|call|telefon|handy|whatsapp)\b\D{0,6}"
_CALLED = re.compile(rf"{_PHONE_WORD}\d(?:[ ()./-]{{0,2}}\d){{6,13}}(?!\d)")
_GROUPED = re.compile(r"\+?[(\d][\d ()./-]{7,}\d")
_IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_IPV6 = re.compile(r"(?<![\w:])[0-9a-f:]*:[0-9a-f]*:[0-9a-f:.]*(?![\w:])")
_BIRTH_WORD = (
    r"\b(?:born|birth|birthday|birthdate|birthdays|dob|d\.o\.b|geboren|geburtsdatum|née?|"
    r"nacimiento|nacid[oa]|nat[oa])\b"
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_YEAR = r"(?:19|20)\d{2}"
_DATE = (
    rf"(?:\d{{1,2}}[ ./-]\d{{1,2}}[ ./-](?:{_YEAR}|\d{{2}})|{_YEAR}[ ./-]\d{{1,2}}[ ./-]\d{{1,2}}|"
    rf"\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{_MONTH},? {_YEAR}|"
    rf"{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? {_YEAR})"
)
_NO_PHONE = re.compile(rf"{_DATE}|{_YEAR}[ /-]{_YEAR}|\d{{5}}-\d{{4}}")
_BIRTH = re.compile(rf"{_BIRTH_WORD}.{{0,20}}?\b{_DATE}\b|\b{_DATE}\b.{{0,12}}{_BIRTH_WORD}")
_STREET_WORD = (
    r"(?:street|st|avenue|ave|road|rd|lane|ln|drive|dr|court|ct|boulevard|blvd|way|place|pl|"
    r"terrace|circle|cir|parkway|pkwy|close|crescent)"
)
_UNIT_OR_CODE = (
    r"(?:(?:\b(?:apt|apartment|unit|suite|flat) ?|#)\d+|\b\d{5}(?:-\d{4})?\b|"
    r"\b[a-z]{1,2}\d{1,2}[a-z]? ?\d[a-z]{2}\b|\b[a-z]\d[a-z] ?\d[a-z]\d\b)"
)
_ADDRESS = re.compile(
    rf"\b\d{{1,5}}[a-z]?,? (?:[a-z.'-]+ ){{1,3}}{_STREET_WORD}\b.*{_UNIT_OR_CODE}|"
    r"\b[\w-]+(?:straße|strasse|str\.|weg|platz|gasse|allee) ?\d{1,4}[a-z]?,? \d{5}\b|"
    r"\b\d{1,4}(?: bis| ter)?,? (?:rue|avenue|boulevard|place|impasse|chemin) .*\b\d{5}\b|"
    r"\b(?:calle|via|rua|plaza|avenida|corso|piazza) .*\b\d{1,4},? (?:\d{5}|\d{4}-\d{3})\b"
)
_PLATE = re.compile(
    r"(?<![\w-])(?:[a-z]{2}\d{2} [a-z]{3}|[a-z]{2}-\d{3}-[a-z]{2}|"
    r"[a-zäöü]{1,3}-[a-z]{1,2} (?!19|20)\d{3,4}|"
    r"\d{2}-[a-z]{2}-[a-z]{2}|[a-z]{2}-\d{2}-[a-z]{2})(?![\w-])|"
    r"\b(?:license|licence|number|vehicle) ?plates? (?:number )?(?=[a-z]*\d)[a-z0-9-]{4,8}\b"
)

CLUES = "|".join(
    (
        r"[0-9]\.[0-9]{1,3}\.[0-9]|:[0-9a-f]{0,4}:",
        r"born|birth|dob|d\.o\.b|gebor|geburt|naci|nat[oa]|née?",
        rf"[0-9][a-z]?,? .* {_STREET_WORD}.*[0-9]",
        r"(?:str\.|stra(?:ß|ss)e|weg|platz|gasse|allee) ?[0-9]",
        r"[0-9].*(?:rue|avenue|boulevard|place|impasse|chemin) ",
        r"(?:calle|via|rua|plaza|avenida|corso|piazza) .*[0-9]",
        r"[a-z]{2}-?[0-9]{2,3}[ -][a-z]{2}|[a-z]-[a-z]{1,2} [0-9]{3}|[0-9]{2}-[a-z]{2}-|plate",
        r"[a-z]{2}[0-9]{2}[ -]?[a-z]{2}|[a-z]{2} ?(?:[0-9]{2} ?){3}[a-d]",
        r"[a-z]{4}[0-9]{4}|[a-z]{6}[0-9]{2}",
    )
)
"""Matches (without regard to case) every text that `recognise` accepts without seven digits."""


def recognise(text: str) -> bool:
    """Whether a text as typed contains personal data.

    >>> recognise("call 030 901820"), recognise("192.168.1.1"), recognise("born 12/05/1970")
    (True, False, True)
    """
    lowered = text.lower()
    return (
        _has_phone(lowered)
        or has_checked_number(text.upper())
        or _has_ip_address(lowered)
        or _BIRTH.search(lowered) is not None
        or _ADDRESS.search(lowered) is not None
        or _PLATE.search(lowered) is not None
    )


def _has_phone(text: str) -> bool:
    if _CALLED.search(text):
        return True
    grouped = [match[0] for match in _GROUPED.finditer(text)]
    return any(_is_phone(number) for number in grouped if re.search(r"[ ()./-]|^[+0]", number))


def _is_phone(number: str) -> bool:
    """Whether a number is valid somewhere, and its groups are those people write it in there."""
    from phonenumbers import Leniency, PhoneNumberMatcher  # takes a while; few texts come here

    if number.startswith(("+", "00")):
        international = "+" + number.lstrip("+0")
        return any(PhoneNumberMatcher(international, None, leniency=Leniency.VALID))
    if _NO_PHONE.fullmatch(number.strip()):
        return False
    grouping = Leniency.STRICT_GROUPING
    return any(any(PhoneNumberMatcher(number, region, leniency=grouping)) for region in REGIONS)


def _has_ip_address(text: str) -> bool:
    """Whether there is an address of the public network; `192.168.1.1` is everybody's router."""
    addresses = [*_IPV4.findall(text), *(part for part in _IPV6.findall(text) if part.strip(":."))]
    return any(_is_global(address) for address in addresses)


def _is_global(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


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
"""A longer text is pasted, such as a letter, and counts as personal. The
patterns would need time that grows with the square of its length."""
_PERSONAL = re.compile("|".join((*_DIGIT_PATTERNS, *_MAIL_PATTERNS)))

SUSPECT = (
    r"(?i)@|[^\x00-\x7f]|(?:[0-9][^0-9]{0,3}){7}| dot |[\[(]at[\])]|"
    rf"(?:{_MAIL_ONLY}|{_MAIL_AND_MORE})[ .]"
)
"""Matches every text that `looks_personal` accepts and few others: a filter before it."""

_UNNAMED = "(without a name in a module)"

Recogniser = Callable[[str], bool]
"""Whether a query as typed contains personal data: a site's own rule, in addition to these."""


def looks_personal(text: str) -> bool:
    """Whether a raw or normalised query looks like somebody's personal data."""
    return len(text) > LONGEST_QUERY or _PERSONAL.search(_plain(text).lower()) is not None


def looks_personal_typed(text: str) -> bool:
    """Whether a query as typed does, with its punctuation."""
    return looks_personal(text) or recognise(_plain(text))


def _plain(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def mark_personal(texts: "pl.Series") -> "pl.Series":
    """`looks_personal` of every normalised text, called only where the quick pattern matches."""
    return _marked(texts, SUSPECT, looks_personal)


def mark_personal_typed(texts: "pl.Series", also: Recogniser | None = None) -> "pl.Series":
    """`looks_personal_typed` of every text as typed; `also`, a second rule, is applied to all."""
    marks = _marked(texts, f"{SUSPECT}|{CLUES}", looks_personal_typed)
    if also is None:
        return marks
    return marks | _marked(texts, "", partial(_asked, also))


def _asked(recogniser: Recogniser, text: str) -> bool:
    """The answer of a site's own rule, which must be true or false."""
    try:
        answer = recogniser(text)
    except Exception as error:  # the message of an error may quote the query
        failed = type(error).__name__
        raise InputError(
            f"`recogniser` {recogniser_name(recogniser)}: failed with {failed}"
        ) from None
    if answer is None or isinstance(answer, re.Match):
        return answer is not None
    if not isinstance(answer, bool | np.bool):
        kind = type(answer).__name__
        if inspect.iscoroutine(answer):
            answer.close()
        raise InputError(
            f"`recogniser` {recogniser_name(recogniser)}: must return True or False, not a {kind}"
        )
    return bool(answer)


def recogniser_name(recogniser: Recogniser) -> str:
    """Where a recogniser can be imported from, as `module:name`, for the manifest and messages.

    One that no module has under a name, such as a lambda or an object made on the way, is described
    so that `find_recogniser` refuses it: its class or an unbound method is not the same rule.
    """
    named = recogniser if hasattr(recogniser, "__qualname__") else type(recogniser)
    path = f"{named.__module__}:{named.__qualname__}"
    try:
        if attrgetter(named.__qualname__)(sys.modules[named.__module__]) == recogniser:
            return path
    except (KeyError, AttributeError):
        pass
    for module, contents in list(sys.modules.items()):
        for name, value in list(getattr(contents, "__dict__", {}).items()):
            if value is recogniser:
                return f"{module}:{name}"
    return f"{path} {_UNNAMED}"


def find_recogniser(path: str) -> Recogniser:
    """The function that `module:function` names."""
    module, _, name = path.partition(":")
    if name.endswith(_UNNAMED):
        raise InputError(
            f"`recogniser` {path}: cannot be imported; give it a name in a module and prepare the "
            "log again"
        )
    try:
        function = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"`recogniser` {path}: cannot be imported ({error})") from None
    check_recogniser(function, path)
    recogniser: Recogniser = function
    return recogniser


def check_recogniser(recogniser: object, name: str) -> None:
    """Refuse what cannot be asked about a query; a class would only make an object of it."""
    if isinstance(recogniser, type):
        raise InputError(
            f"`recogniser` {name}: is a class; name a function or an object of that class"
        )
    if not callable(recogniser):
        raise InputError(f"`recogniser` {name}: is not a function from a query to true or false")


def _marked(texts: "pl.Series", suspect: str, rule: Recogniser) -> "pl.Series":
    import polars as pl  # not above: a guard that serves needs the patterns alone

    suspected = texts.str.contains(suspect) | (texts.str.len_chars() > LONGEST_QUERY)
    indices = suspected.arg_true()
    suspects = zip(indices.to_list(), texts.gather(indices).to_list(), strict=True)
    personal = [index for index, text in suspects if rule(text)]
    marks = pl.repeat(False, len(texts), eager=True)
    return marks.scatter(personal, True) if personal else marks


USER_BITS = 63


def pseudonym(user: str) -> int:
    """The user's md5 as a 63-bit number: the same in every engine, and evenly spread.

    It keeps a raw user id out of the data folder. It is not anonymisation: with all ids one can
    compute all pseudonyms.
    """
    digest = hashlib.md5(user.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - USER_BITS)


def pseudonyms(batch: "pl.DataFrame") -> "pl.DataFrame":
    """The pseudonym of every `user` of a batch."""
    import polars as pl

    numbers = [pseudonym(user) for user in batch["user"].to_list()]
    return batch.select("user_id", pl.Series("user", numbers, dtype=pl.Int64))

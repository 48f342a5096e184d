"""Personal data in queries: recognisers, check digits, and pseudonyms of users."""

import hashlib
import inspect
import ipaddress
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from nextquery.errors import InputError

if TYPE_CHECKING:
    import polars as pl

Check = Callable[[str], bool]


def has_checked_number(text: str) -> bool:
    """Whether an upper-cased text holds a number whose form and check digits are right.

    >>> has_checked_number("IBAN GB82 WEST 1234 5698 7654 32"), has_checked_number("GB82 WEST 1234")
    (True, False)
    """
    return any(
        check(re.sub(r"[^0-9A-Z]", "", found[0]))
        for pattern, check in FORMS
        for found in pattern.finditer(text)
    )


def luhn(digits: str) -> bool:
    """The check of card numbers, of Swedish and Canadian identity numbers.

    >>> luhn("4111111111111111"), luhn("4111111111111112")
    (True, False)
    """
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    total = sum(map(int, digits[-1::-2])) + sum(value - 9 * (value > 9) for value in doubled)
    return total % 10 == 0 and len(set(digits)) > 1


def _iban(number: str) -> bool:
    """Bank accounts: as long as in their country, 1 modulo 97; what follows is no part of them."""
    account = number[: _IBAN_LENGTHS.get(number[:2], 0)]
    moved = account[4:] + account[:4]
    return bool(account) and int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


_LENGTHS = (
    "NO15 BE16 DK18 FI18 NL18 MK19 SI19 AT20 BA20 EE20 KZ20 LT20 LU20 XK20 CH21 HR21 LI21 LV21"
    " BG22 BH22 CR22 DE22 GB22 GE22 IE22 ME22 RS22 AE23 GI23 IL23 AD24 CZ24 ES24 MD24 PK24 RO24"
    " SA24 SE24 SK24 TN24 VA22 PT25 IS26 TR26 FR27 GR27 IT27 MC27 MR27 SM27 AL28 AZ28 CY28 DO28"
    " GT28 HU28 LB28 PL28 BR29 EG29 PS29 QA29 UA29 JO30 KW30 MU30 MT31"
)
_IBAN_LENGTHS = {part[:2]: int(part[2:]) for part in _LENGTHS.split()}


def _weighted(digits: str, weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _cpf(number: str) -> bool:
    """Brazil: two check digits modulo 11."""
    first = _weighted(number, range(10, 1, -1)) * 10 % 11 % 10
    second = _weighted(number, range(11, 1, -1)) * 10 % 11 % 10
    return number[9:] == f"{first}{second}" and len(set(number)) > 1


def _nir(number: str) -> bool:
    """France: 13 digits and 97 less their remainder."""
    return 97 - int(number[:13]) % 97 == int(number[13:])


def _dni(number: str) -> bool:
    """Spain: eight digits and a letter; a foreigner's first digit is written as X, Y or Z."""
    digits = number[:-1].translate(str.maketrans("XYZ", "012"))
    return number[-1] == "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23]


def _hetu(number: str) -> bool:
    """Finland: nine digits and a letter or digit by their remainder."""
    return number[-1] == "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(number[:-1]) % 31]


def _ahv(number: str) -> bool:
    """Switzerland: 756 and the check of an EAN."""
    return (_weighted(number[:12], (1, 3) * 6) + int(number[12])) % 10 == 0


def _chinese(number: str) -> bool:
    weights = [2**power % 11 for power in range(17, 0, -1)]
    return number[17] == "10X98765432"[_weighted(number, weights) % 11]


def _aadhaar(number: str) -> bool:
    """India: Verhoeff's check by the dihedral group."""
    total = 0
    for place, digit in enumerate(map(int, reversed(number))):
        total = _dihedral(total, _permuted(digit, place % 8))
    return total == 0


def _dihedral(a: int, b: int) -> int:
    if a < 5:
        return (a + b) % 5 if b < 5 else (a + b - 5) % 5 + 5
    return (a - 5 - b) % 5 + 5 if b < 5 else (a - b) % 5


def _permuted(digit: int, times: int) -> int:
    for _ in range(times):
        digit = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)[digit]
    return digit


_ODD = (
    1,
    0,
    5,
    7,
    9,
    13,
    15,
    17,
    19,
    21,
    2,
    4,
    18,
    20,
    11,
    3,
    6,
    8,
    12,
    14,
    16,
    10,
    22,
    25,
    24,
    23,
)


def _codice_fiscale(number: str) -> bool:
    """Italy: values by place, a letter by their remainder."""
    values = [int(c, 36) - 10 if c.isalpha() else int(c) for c in number[:15]]
    total = sum(_ODD[value] if place % 2 == 0 else value for place, value in enumerate(values))
    return number[15] == chr(65 + total % 26)


def _always(number: str) -> bool:
    return True


def _forms() -> Iterator[tuple[re.Pattern[str], Check]]:
    forms: tuple[tuple[str, Check], ...] = (
        (r"(?:\d[ .-]?){12,18}\d", luhn),  # cards
        (r"[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{2,4}){3,9}", _iban),
        (r"\d{3}[ .]?\d{3}[ .]?\d{3}-?\d{2}", _cpf),
        (r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}", _nir),
        (r"(?:\d{8}|[XYZ]-?\d{7})[ -]?[A-Z]", _dni),
        (r"\d{6}[-+A]\d{3}[0-9A-Y]", lambda n: _hetu(n.replace("A", "", 1) if len(n) > 10 else n)),
        (r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}", _ahv),
        (r"\d{6} ?(?:19|20)\d{6} ?\d{3}[0-9X]", _chinese),
        (r"[2-9]\d{3}[ -]\d{4}[ -]\d{4}", _aadhaar),
        (r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", _codice_fiscale),
        (r"(?:19|20)?\d{2}(?:0[1-9]|1[0-2])[0-3]\d[-+]\d{4}", lambda n: luhn(n[-10:])),  # Sweden
        (r"[0-3]\d(?:0[1-9]|1[0-2])\d{2}-\d{4}", _always),  # Denmark
        (r"\d{3}[ -]\d{3}[ -]\d{3}", luhn),  # Canada
        (r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]", _always),  # Britain
        (r"[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]", _always),  # India, taxes
        (r"[A-Z]{4}\d{2}(?:0[1-9]|1[0-2])[0-3]\d[HM][A-Z]{5}[0-9A-Z]\d", _always),  # Mexico
    )
    for form, check in forms:
        yield re.compile(rf"(?<![0-9A-Z]){form}(?![0-9A-Z])"), check


FORMS = tuple(_forms())
"""How each number is written, and its check."""


REGIONS = (
    "US", "GB", "DE", "FR", "IT", "ES", "NL", "BE", "CH", "AT", "SE", "PL", "PT", "IE", "AU", "NZ",
    "IN", "JP", "KR", "CN", "BR", "MX", "AR", "ZA", "RU", "UA", "TR", "GR", "IL", "CZ",
)  # fmt: skip
"""Whose ways of writing a national phone number are known; `+` and a country code work for all."""

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
    """Whether a text as typed holds personal data.

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
    grouped = [found[0] for found in _GROUPED.finditer(text)]
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
    found = [*_IPV4.findall(text), *(part for part in _IPV6.findall(text) if part.strip(":."))]
    return any(_is_global(address) for address in found)


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
"""A longer text is no query but something pasted, such as a letter: taken for personal unread. The
patterns would need time that grows with the square of its length."""
_PERSONAL = re.compile("|".join((*_DIGIT_PATTERNS, *_MAIL_PATTERNS)))

SUSPECT = (
    r"(?i)@|[^\x00-\x7f]|(?:[0-9][^0-9]{0,3}){7}| dot |[\[(]at[\])]|"
    rf"(?:{_MAIL_ONLY}|{_MAIL_AND_MORE})[ .]"
)
"""Matches every text that `looks_personal` accepts and few others: a filter before it."""

_UNNAMED = "(without a name in a module)"

Recogniser = Callable[[str], bool]
"""Says of a query as typed whether it holds personal data: a site's own rule beside these."""


def looks_personal(text: str) -> bool:
    """Whether a raw or normalised query looks like somebody's personal data."""
    return len(text) > LONGEST_QUERY or _PERSONAL.search(_plain(text).lower()) is not None


def looks_personal_typed(text: str) -> bool:
    """Whether a query as typed does, by all that its punctuation tells, too."""
    # DROPPED  # many patterns; a guard needs none

    return looks_personal(text) or recognise(_plain(text))


def _plain(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def mark_personal(texts: "pl.Series") -> "pl.Series":
    """`looks_personal` of every normalised text, called only where the quick pattern matches."""
    return _marked(texts, SUSPECT, looks_personal)


def mark_personal_typed(texts: "pl.Series", also: Recogniser | None = None) -> "pl.Series":
    """`looks_personal_typed` of every text as typed; `also`, a second rule, is asked for all."""

    marks = _marked(texts, f"{SUSPECT}|{CLUES}", looks_personal_typed)
    if also is None:
        return marks
    return marks | _marked(texts, "", partial(_asked, also))


def _asked(recogniser: Recogniser, text: str) -> bool:
    """The word of a site's own rule; what is neither yes nor no is refused, not taken for yes."""
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
    place = f"{named.__module__}:{named.__qualname__}"
    try:
        if attrgetter(named.__qualname__)(sys.modules[named.__module__]) == recogniser:
            return place
    except (KeyError, AttributeError):
        pass
    for module, contents in list(sys.modules.items()):
        for name, value in list(getattr(contents, "__dict__", {}).items()):
            if value is recogniser:
                return f"{module}:{name}"
    return f"{place} {_UNNAMED}"


def find_recogniser(place: str) -> Recogniser:
    """The function that `module:function` names."""
    module, _, name = place.partition(":")
    if name.endswith(_UNNAMED):
        raise InputError(
            f"`recogniser` {place}: cannot be imported; give it a name in a module and prepare the "
            "log again"
        )
    try:
        found = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"`recogniser` {place}: cannot be imported ({error})") from None
    check_recogniser(found, place)
    recogniser: Recogniser = found
    return recogniser


def check_recogniser(recogniser: object, place: str) -> None:
    """Refuse what cannot be asked about a query; a class would only make an object of it."""
    if isinstance(recogniser, type):
        raise InputError(
            f"`recogniser` {place}: is a class; name a function or an object of that class"
        )
    if not callable(recogniser):
        raise InputError(f"`recogniser` {place}: is not a function from a query to true or false")


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

"""What personal data looks like in a text as typed, with the punctuation that normalising takes.

Classes: phone numbers (by the package phonenumberslite), numbers with check digits, IP
addresses, dates of birth, postal addresses, number plates. Slower than the patterns of `privacy.py`
and asked for few texts: `CLUES` matches all that could be recognised here.
"""

import ipaddress
import re

from nextquery.logs.stages.check_digits import has_checked_number

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

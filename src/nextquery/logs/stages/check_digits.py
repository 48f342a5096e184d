"""Numbers that carry their own check: cards, bank accounts and the identity numbers of states.

A form alone (eleven digits) says little, a form whose check digits are right says almost all.
"""

import re
from collections.abc import Callable, Iterator, Sequence

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

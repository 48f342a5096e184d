"""Published example numbers are right, and wrong as soon as one digit changes."""

import pytest

from nextquery.logs.privacy import has_checked_number

NUMBERS = [
    "4111-1111-1111-1111",
    "3400 000000 00009",
    "GB82 WEST 1234 5698 7654 32",
    "FR14 2004 1010 0505 0001 3M02 606",
    "111.444.777-35",
    "2 55 08 14 168 025 38",
    "12345678Z",
    "X1234567L",
    "131052-308T",
    "756.9217.0769.85",
    "11010519491231002X",
    "2341 2341 2346",
    "RSSMRA85T10A562S",
    "811218-9876",
    "123 456 782",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_right_number_is_found_inside_a_text(number: str) -> None:
    assert has_checked_number(f"MY NUMBER IS {number} OK")


@pytest.mark.parametrize("number", NUMBERS)
def test_most_changed_numbers_are_wrong(number: str) -> None:
    places = [place for place, character in enumerate(number) if character.isdigit()]
    changed = [
        number[:place] + str((int(number[place]) + step) % 10) + number[place + 1 :]
        for place in places
        for step in range(1, 10)
    ]
    assert sum(map(has_checked_number, changed)) <= 0.12 * len(changed)


@pytest.mark.parametrize(
    "number", ["AB 12 34 56 C", "ABCPE1234F", "HEGG560427MVZRRL04", "010190-1234"]
)
def test_some_numbers_have_a_form_of_their_own(number: str) -> None:
    assert has_checked_number(number)
    assert not has_checked_number(f"9{number}9")

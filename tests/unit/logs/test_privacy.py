"""Personal data in queries, recognisers and pseudonyms."""

import re
import threading
import time
from functools import partial
from typing import Any, cast

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InputError
from nextquery.logs.privacy import (
    Recogniser,
    find_recogniser,
    has_checked_number,
    looks_personal,
    looks_personal_typed,
    mark_personal,
    mark_personal_typed,
    pseudonym,
    recognise,
    recogniser_name,
)
from nextquery.logs.settings import PrepareSettings
from nextquery.normalise import normalise_query

PERSONAL = [
    "jane.doe@example.com",
    "mail jane@example",
    "078-05-1120",
    "ssn 078 05 1120",
    "4111 1111 1111 1111",
    "4111-1111-1111-1111 visa",
    "3782 822463 10005",
    "(555) 123-4567",
    "555.123.4567",
    "call 555-1234",
    "+44 20 7946 0958",
    "020 7946 0958",
    "account 123456789",
    "５５５-１２３-４５６７",
    "janedoe gmail com",
    "jane42 yahoo com",
    "jane at example dot com",
    "jane [at] example.com",
    "jane @ example.com",
]
HARMLESS = [
    "red shoes",
    "windows 2000",
    "12345-6789",
    "2006-05-01",
    "12 25 2005",
    "20060501",
    "www hotmail com",
    "hotmail com",
    "mail yahoo com",
    "maps yahoo com",
    "1 800 flowers",
    "boeing 747 400",
    "9 11 2001",
    "c@t",
    "meet @ noon",
    "create gmail account",
    "forgot gmail password",
    "how to use gmail offline",
    "free hotmail com",
    "look at polka dot dress",
]


@pytest.mark.parametrize("text", PERSONAL)
def test_personal_data_is_recognised(text: str) -> None:
    assert looks_personal(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_other_queries_are_left_alone(text: str) -> None:
    assert not looks_personal(text)


# Without at sign, plus or hyphen these say nothing any more.
LOST = (
    "jane [at] example.com",
    "jane @ example.com",
    "jane.doe@example.com",
    "mail jane@example",
    "call 555-1234",
    "+44 20 7946 0958",
)


@pytest.mark.parametrize("text", [text for text in PERSONAL if text not in LOST])
def test_numbers_are_recognised_without_their_punctuation(text: str) -> None:
    assert looks_personal(normalise_query(text))


PIECES = st.sampled_from(
    ["5", "55", "123", "4567", "-", " ", ".", "(", ")", "+", "@", "a", "gmail", "yahoo", "com", "٣"]
)


@given(st.lists(st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text()), max_size=20))
def test_the_quick_pattern_misses_nothing(texts: list[str]) -> None:
    marks = mark_personal(pl.Series("query", texts, dtype=pl.String))
    assert marks.to_list() == [looks_personal(text) for text in texts]


TYPED_PIECES = st.sampled_from(
    ["030 901820", "8.8.8.8", "10.0.0.1", "2001:4860:4860::8888", "born ", "12/05/1970", "may 12 ",
     "1980", "ab12 cde", "b-mw 123", "12 oak ave ", "apt 4", "62704", "lindenweg 12, ", "80331",
     "12345678z", "ab 12 34 56 c", "x", " ", "plate ", "rua nova 5 ", "1234-567", "née", "fax 5"]
)  # fmt: skip


@given(st.lists(st.one_of(st.lists(TYPED_PIECES, max_size=5).map("".join), st.text()), max_size=20))
def test_the_quick_pattern_misses_nothing_of_what_is_typed(texts: list[str]) -> None:
    marks = mark_personal_typed(pl.Series("query", texts, dtype=pl.String))
    assert marks.to_list() == [looks_personal_typed(text) for text in texts]


def _names_jane(text: str) -> bool:
    return "jane" in text.lower()


def test_a_site_may_add_a_recogniser_of_its_own() -> None:
    texts = pl.Series("query", ["Jane Doe", "red shoes", "call 555-123-4567"])
    assert mark_personal_typed(texts).to_list() == [False, False, True]
    assert mark_personal_typed(texts, _names_jane).to_list() == [True, False, True]


def test_a_recogniser_that_fails_is_named_and_quotes_no_query() -> None:
    def fails(text: str) -> bool:
        raise ValueError(text)

    with pytest.raises(InputError, match=r"fails .*: failed with ValueError$"):
        mark_personal_typed(pl.Series("query", ["my secret"]), fails)


def test_a_recogniser_is_found_by_name() -> None:
    result = find_recogniser("nextquery.logs.privacy:recognise")
    assert result("born 12/05/1970")
    assert recogniser_name(result) == "nextquery.logs.privacy:recognise"


@pytest.mark.parametrize("name", ["nowhere:rule", "math:rule", "math", "math:pi", ":", ""])
def test_a_recogniser_that_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match="`recogniser`"):
        find_recogniser(name)


def test_a_pseudonym_is_the_start_of_the_md5() -> None:
    # md5("42") = a1d0c6e83f027327..., of which the first 63 bits
    assert pseudonym("42") == 0xA1D0C6E83F027327 >> 1


@pytest.mark.parametrize("filling", ["x", "1a", "x ", "é", "1 rue ", "x. ", ":1", "a-b "])
def test_a_text_of_any_length_is_judged_at_once(filling: str) -> None:
    text = filling * (300_000 // len(filling))
    begin = time.process_time()
    assert looks_personal(text)
    assert looks_personal_typed(text)
    assert mark_personal_typed(pl.Series(["shoes", text])).to_list() == [False, True]
    assert time.process_time() - begin < 5


class Listed:
    """A rule with a list of its own, and a lock, as one that asks a service has."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.lock = threading.Lock()

    def __call__(self, text: str) -> bool:
        with self.lock:
            return any(name in text for name in self.names)

    def check(self, text: str) -> bool:
        return self(text)


listed = Listed("jane")


def test_an_object_is_found_again_and_not_its_class() -> None:
    position = recogniser_name(listed)
    assert position.endswith("test_privacy:listed")
    assert find_recogniser(position) is listed


@pytest.mark.parametrize(
    "recogniser", [Listed("joe"), listed.check, lambda text: False, partial(Listed.check, listed)]
)
def test_what_has_no_name_is_never_found_as_something_else(recogniser: Recogniser) -> None:
    with pytest.raises(InputError, match=r"cannot be imported; give it a name in a module"):
        find_recogniser(recogniser_name(recogniser))


def test_a_class_is_refused() -> None:
    with pytest.raises(InputError, match="is a class"):
        find_recogniser(f"{__name__}:Listed")
    with pytest.raises(InputError, match="is a class"):
        PrepareSettings(recogniser=cast(Any, Listed))
    with pytest.raises(InputError, match="is not a function"):
        PrepareSettings(recogniser=cast(Any, "my_rules:names_a_person"))


async def _later(text: str) -> bool:
    return False


@pytest.mark.parametrize("rule", [Listed, _later, lambda text: "no", lambda text: [False]])
def test_only_true_or_false_count_as_answers_of_a_recogniser(rule: Any) -> None:
    with pytest.raises(InputError, match="must return True or False, not a"):
        mark_personal_typed(pl.Series(["red shoes"]), rule)


def test_a_pattern_may_be_a_recogniser() -> None:
    marks = mark_personal_typed(
        pl.Series(["jane doe", "shoes"]), cast(Any, re.compile("jane").search)
    )
    assert marks.to_list() == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "+49 30 901820", "030 901820", "01 42 68 53 00", "(11) 91234-5678", "0049 30 901820",
        "8 (495) 123-45-67", "tel 555 0142", "whatsapp: 5550142",  # phones
        "GB82 WEST 1234 5698 7654 32", "529.982.247-25", "12345678Z",  # numbers with check digits
        "8.8.8.8", "who is 2001:4860:4860::8888",  # addresses of the public network
        "born 12/05/1970", "dob 1970-05-12", "born on 12th of may 1980", "May 12, 1980 birthday",
        "123 main st springfield il 62704", "12 oak ave #4", "Hauptstraße 5, 10115 Berlin",
        "12 rue de la paix 75002 paris", "10 downing street sw1a 2aa",
        "ab12 cde", "AB-123-CD", "B-MW 1234", "license plate 4abc123",
    ],
)  # fmt: skip
def test_personal_data_is_recognised_as_typed(text: str) -> None:
    assert recognise(text)


@pytest.mark.parametrize(
    "text",
    [
        "12345-6789", "2006-05-01", "12.05.1970", "1990 2000", "1914-1918", "20060501", "555 0142",
        "GB82 WEST 1234 5698 7654 33", "123.456.789-00", "12345678A",
        "192.168.1.1", "10.0.0.1", "999.1.1.1", "1.2.3", "std::vector", "12:30:45", "::",
        "happy birthday", "born in 1970", "born february 22 1732", "21 jump street",
        "4 star hotels park avenue", "wi-fi 6", "co-op 24 hour", "us-china 2006 trade", "x-men 3",
    ],
)  # fmt: skip
def test_what_resembles_it_passes(text: str) -> None:
    assert not recognise(text)


LATER = [
    "bob.smith@company.io", "email: a.b-c_d@uni.edu", "bob(at)company.io", "bob at gmail.com",
    "bob[at]gmail[dot]com", "BOB@GMAIL", "bob@localhost", "用户@例子.公司", "bob AT gmail DOT com",
    "+353 1 234 5678", "01 234 5678", "+45 20 12 34 56", "20 12 34 56", "+47 22 12 34 56",
    "+358 40 123 4567", "040 123 4567", "+65 6123 4567", "+852 2123 4567", "0921 123 456",
    "+420 777 123 456", "777 123 456", "0030 210 1234567", "210 1234567", "+972-3-123-4567",
    "03-123-4567", "054-1234567", "+66 2 123 4567", "02 123 4567", "+84 24 1234 5678",
    "+62 21 1234567", "+92 51 1234567", "+234 1 123 4567", "0171/1234567", "(030) 12345678",
    "+1 (604) 555-0100", "604.555.0100", "tel: 0761-123456", "mobile 0491 570 156",
    "020 8366 1177", "+3906 698 12345", "333 1234567", "11 4123-4567", "+54 11 4123-4567",
    "123-45-6789", "536-22-8726", "JG103759A", "jg 10 37 59 a", "00000000T", "Z8078221M",
    "VRDGPP13R10B293P", "850101-1236", "290290-1234", "756.1234.5678.97", "935.411.347-80",
    "4991 1866 5246", "AAAPL1234C", "1 85 05 78 006 084 91", "9001049818080",
    "BE 85.07.30-033.28", "85073003328", "PESEL 02070803628", "SIN 130 692 544", "bsn 123456782",
    "born 3 march 1985", "my birthday is 03/03/1985", "date of birth: March 3rd, 1985",
    "fecha de nacimiento 03/03/1985", "dob 030385", "d.o.b. 3-3-85",
    "1.1.1.1", "ip 185.60.216.35", "2a00:1450:4001:81b::200e",
    "4 privet drive little whinging gu24 9pp", "350 fifth avenue new york ny 10118",
    "55 rue du faubourg saint honoré 75008 paris", "unter den linden 77 10117 berlin",
    "piazza navona 12, 00186 roma", "1 infinite loop cupertino ca 95014",
    "77 massachusetts ave apt 3b", "calle de alcalá 45, 28014 madrid",
    "musterstr. 1 12345 musterstadt",
    "KA19 ABC", "M-XY 4567", "GB-123-XZ", "licence plate abc 123", "kennzeichen b ab 123",
    "8-ABC-12",
]  # fmt: skip
LATER_HARMLESS = [
    "top 10 movies 2005", "2004 2005 2006 calendar", "12-24-36 month cd rates",
    "1/2 3/4 5/8 drill bits", "texas 1836 1845", "nfl 2005-2006 season", "5.1.2 surround",
    "area code 212", "zip code 90210", "211 main", "mark 10 45 bible", "psalm 23 1 6",
    "lotto 6 49 results", "02 09 2006", "dell 1720 3100 5150", "450 000 000 years ago",
    "chevy 350 400 454", "a4 b5 1.8t", "hp 56 57 58 ink", "1099 misc 2005",
    "w2 2004 form 1040 ez", "9-11 facts", "50 cent 21 questions", "90210 episode 1 2 3",
    "80 20 rule", "pi 3.141592653", "route 1 9", "born 1985", "birth of a nation 1915",
    "birthday july 4", "avenue q", "5th avenue", "road runner 98.6", "k mart 24 hour",
    "channel 5 news 10 pm", "f 150 4x4 2004", "mp3 128 kbps", "hotels near 10 downing street",
    "123 street", "rt 202", "m-audio 24 96", "x-box 360", "e-z pass ny 511", "u-haul 26 ft",
    "d-day 1944", "catch-22 1961", "t-mobile 611", "us-ma 2005",
]  # fmt: skip


def test_cases_written_after_the_rules_do_nearly_as_well() -> None:
    """The figures of docs/explanation/privacy.md."""
    assert sum(map(looks_personal_typed, LATER)) == 78
    assert len(LATER) == 87
    assert sum(map(looks_personal_typed, LATER_HARMLESS)) == 3
    assert len(LATER_HARMLESS) == 48


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
    positions = [position for position, character in enumerate(number) if character.isdigit()]
    changed = [
        number[:position] + str((int(number[position]) + step) % 10) + number[position + 1 :]
        for position in positions
        for step in range(1, 10)
    ]
    assert sum(map(has_checked_number, changed)) <= 0.12 * len(changed)


@pytest.mark.parametrize(
    "number", ["AB 12 34 56 C", "ABCPE1234F", "HEGG560427MVZRRL04", "010190-1234"]
)
def test_some_numbers_have_a_form_of_their_own(number: str) -> None:
    assert has_checked_number(number)
    assert not has_checked_number(f"9{number}9")

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.logs.stages.privacy import looks_personal, mark_personal, pseudonym
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
]


@pytest.mark.parametrize("text", PERSONAL)
def test_personal_data_is_recognised(text: str) -> None:
    assert looks_personal(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_other_queries_are_left_alone(text: str) -> None:
    assert not looks_personal(text)


# Without at sign, plus or hyphen these say nothing any more.
LOST = ("jane.doe@example.com", "mail jane@example", "call 555-1234", "+44 20 7946 0958")


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


def test_a_pseudonym_is_the_start_of_the_md5() -> None:
    # md5("42") = a1d0c6e83f027327..., of which the first 63 bits
    assert pseudonym("42") == 0xA1D0C6E83F027327 >> 1

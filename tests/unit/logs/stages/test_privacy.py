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
    LONGEST_QUERY,
    Recogniser,
    find_recogniser,
    looks_personal,
    looks_personal_typed,
    mark_personal,
    mark_personal_typed,
    pseudonym,
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
    found = find_recogniser("nextquery.logs.privacy:recognise")
    assert found("born 12/05/1970")
    assert recogniser_name(found) == "nextquery.logs.privacy:recognise"


@pytest.mark.parametrize("place", ["nowhere:rule", "math:rule", "math", "math:pi", ":", ""])
def test_a_recogniser_that_is_not_there_is_an_error(place: str) -> None:
    with pytest.raises(InputError, match="`recogniser`"):
        find_recogniser(place)


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


@pytest.mark.parametrize("filling", ["x", "1a", "x ", "é", "1 rue ", "x. ", ":1", "a-b ", "1.2."])
def test_the_longest_query_is_judged_in_little_time(filling: str) -> None:
    text = (filling * LONGEST_QUERY)[:LONGEST_QUERY]
    begin = time.process_time()
    looks_personal_typed(text)
    assert time.process_time() - begin < 2


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
    place = recogniser_name(listed)
    assert place.endswith("test_privacy:listed")
    assert find_recogniser(place) is listed


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
def test_an_answer_that_is_no_answer_is_not_taken_for_yes(rule: Any) -> None:
    with pytest.raises(InputError, match="must return True or False, not a"):
        mark_personal_typed(pl.Series(["red shoes"]), rule)


def test_a_pattern_may_be_a_recogniser() -> None:
    marks = mark_personal_typed(
        pl.Series(["jane doe", "shoes"]), cast(Any, re.compile("jane").search)
    )
    assert marks.to_list() == [True, False]

"""Texts of strangers at the edge: normalised once, and never more than is read."""

import asyncio
import time

import pytest

from nextquery.normalise import normalise_query
from nextquery.service.schemas import SuggestRequest
from nextquery.service.sessions import joined
from nextquery.service.settings import (
    MAX_CONTEXT_QUERIES,
    MAX_QUERY_CHARACTERS,
    MAX_SESSION_BYTES,
    MAX_WORD_CHARACTERS,
    text_bytes,
)
from nextquery.service.texts import read_many, read_prefix, read_query, read_session, read_texts

EXPANDING = {
    "an Arabic phrase": "\ufdfa",
    "another": "\ufdfb",
    "ligatures": "\ufb03",
    "square words": "\u3316",
    "Hangul": "\uac01",
    "full width": "\uff21",
    "stacked marks": "a\u0344\u0390\u0301\u0316",
    "dotted capital I": "\u0130",
    "bold letters": "\U0001d400",
    "Chinese": "便宜的北京酒店",
    "Thai": "โรงแรมราคาถูก",
    "Japanese": "東京の安いホテル",
    "invisible": "\u200b",
    "words with digits": "a1",
    "one-letter words": "a ",
}


@pytest.mark.parametrize("text", EXPANDING.values(), ids=EXPANDING)
def test_no_session_is_longer_than_what_is_read(text: str) -> None:
    long = (text * MAX_QUERY_CHARACTERS)[:MAX_QUERY_CHARACTERS]
    session = read_session([f"{number} {long}"[:512] for number in range(MAX_CONTEXT_QUERIES)])
    assert sum(map(text_bytes, joined(session))) <= MAX_SESSION_BYTES
    assert sum(map(len, session)) <= MAX_SESSION_BYTES
    for query in (read_query(long), *session):
        assert len(query) < 2 * MAX_QUERY_CHARACTERS
        assert max(map(len, query.split()), default=0) <= MAX_WORD_CHARACTERS
        assert normalise_query(query) == query


@pytest.mark.parametrize("text", EXPANDING.values(), ids=EXPANDING)
def test_reading_the_longest_session_takes_milliseconds(text: str) -> None:
    long = (text * MAX_QUERY_CHARACTERS)[:MAX_QUERY_CHARACTERS]
    read_query(long)  # loads the parsers
    session = [f"{number} {long}"[:512] for number in range(MAX_CONTEXT_QUERIES)]
    begin = time.process_time()
    read_session(session)
    assert time.process_time() - begin < 0.05


def test_an_ordinary_session_is_kept_as_a_whole() -> None:
    session = [f"Cheap Hotels in Paris, no. {number}" for number in range(MAX_CONTEXT_QUERIES)]
    assert read_session(session) == [normalise_query(query) for query in session]
    assert read_session(["!!!", "Paris"]) == ["paris"]


def test_the_last_queries_are_those_that_are_read() -> None:
    long = "x " * 250
    assert read_session(["first", *[long] * 10, "last"])[-1] == "last"
    assert "first" not in read_session(["first", *[long] * 10, "last"])


def test_a_request_has_its_texts_normalised() -> None:
    asked = SuggestRequest(query="Bj's", context=["PARIS!", " "])
    read_texts(asked)
    assert (asked.query, asked.context) == ("bjs", ["paris"])


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("Par", "par"),
        ("Paris ", "paris "),
        ("paris-", "paris-"),
        ("", ""),
        ("!", ""),
        ("x" * 128, "x" * 128),
        ("x" * 129, None),
        ("\ufdfa" * 20, None),
    ],
)
def test_a_prefix_shows_whether_its_last_word_is_whole(typed: str, read: str | None) -> None:
    assert read_prefix(typed) == read


def test_other_requests_are_served_while_many_texts_are_read() -> None:
    async def read() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        waiting = asyncio.create_task(other())
        texts = ["中" * MAX_QUERY_CHARACTERS] * 30
        assert await read_many(texts) == [read_query(texts[0])] * 30
        waiting.cancel()
        return turns

    assert asyncio.run(read()) >= 9

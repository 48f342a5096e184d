"""What a word is read as, by hand-made examples."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.guard.blocklist import (
    draws_out,
    inflects,
    letters,
    read_letters,
    read_many,
    read_text,
    read_word,
    stem,
)


@pytest.mark.parametrize(
    ("word", "read"),
    [("bad", "bad"), ("b4d", "bad"), ("bäd", "bad"), ("bаd", "bad"), ("455", "455"), ("٣", "٣")],
)
def test_a_word_is_read_as_the_eye_does(word: str, read: str) -> None:
    assert letters(word) == read


def test_a_reading_has_every_form_that_is_compared() -> None:
    assert read_word("kiilled") == ("kiilled", "klllled", "klled", "kil", "kled")


def test_a_text_is_normalised_before_it_is_read() -> None:
    assert [word.letters for word in read_text("B4d, w\u200börd! \u200b")] == ["bad", "word"]


@pytest.mark.parametrize(
    ("word", "plain", "is_so"),
    [
        ("badword", "badword", True),
        ("baddword", "badword", True),
        ("assess", "asses", False),
        ("shott", "shot", False),
        ("shottt", "shot", True),
        ("as", "ass", False),
        ("asss", "ass", True),
    ],
)
def test_letters_are_only_added_in_a_disguise(word: str, plain: str, is_so: bool) -> None:
    assert draws_out(word, plain) == is_so


@pytest.mark.parametrize(
    ("word", "plain", "is_so"),
    [("words", "word", True), ("riding", "ride", True), ("cities", "city", True),
     ("rid", "ride", False), ("organ", "organs", False), ("cittties", "city", True)],
)  # fmt: skip
def test_an_inflection_goes_on_where_the_word_ends(word: str, plain: str, is_so: bool) -> None:
    assert inflects(word, plain) == is_so


def test_threads_stem_alike() -> None:
    words = [f"word{letter}ing" for letter in "abcdefghijklmnopqrstuvwxyz"] * 50
    expected = [stem(word) for word in words]
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append([stem(word) for word in words]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@given(st.lists(st.text(st.characters(categories=["Ll", "Nd"]), min_size=1, max_size=12)))
def test_many_words_are_read_as_each_alone(words: list[str]) -> None:
    assert read_many(words) == [read_letters(word) for word in words]

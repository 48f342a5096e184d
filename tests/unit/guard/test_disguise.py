"""What a word is read as: look-alike letters, doubled letters, inflections."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.guard.blocklist import (
    draws_out,
    inflects,
    letters,
    look_alikes,
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
def test_an_inflection_continues_at_the_end_of_the_word(word: str, plain: str, is_so: bool) -> None:
    assert inflects(word, plain) == is_so


def test_threads_stem_alike() -> None:
    words = [f"word{letter}ing" for letter in "abcdefghijklmnopqrstuvwxyz"] * 50
    expected = [stem(word) for word in words]
    result: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: result.append([stem(word) for word in words]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == [expected] * 4


@given(st.lists(st.text(st.characters(categories=["Ll", "Nd"]), min_size=1, max_size=12)))
def test_many_words_are_read_as_each_alone(words: list[str]) -> None:
    assert read_many(words) == [read_letters(word) for word in words]


@pytest.mark.parametrize(
    ("drawn", "letter"),
    [
        ("аαɑ", "a"),
        ("вβƃʙ", "b"),
        ("сϲᴄ", "c"),
        ("ԁɗđ", "d"),
        ("еєεҽ", "e"),
        ("һհħ", "h"),
        ("іιı", "i"),
        ("ӏ", "i"),
        ("мᴍ", "m"),
        ("оοσօ", "o"),
        ("рρ", "p"),
        ("ѕꜱ", "s"),
        ("тτᴛ", "t"),
        ("υս", "u"),
        ("хχ", "x"),
        ("уγ", "y"),
    ],
)
def test_twins_of_other_scripts(drawn: str, letter: str) -> None:
    assert drawn.translate(look_alikes()) == letter * len(drawn)


@pytest.mark.parametrize(
    ("alphabet", "letters"),
    [
        ("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz"),  # small capitals
        ("ⱥƀȼđɇǥħɨɉꝁłꞥøᵽꝗɍꞩŧᵾꝟɏƶ", "abcdeghijklnopqrstuvyz"),  # stroked
        ("ɑɓɕɖɘɠɦɨʝƙɭɱɳɵƥʠɾʂʈʉʏʐ", "abcdeghijklmnopqrstuyz"),  # phonetic
        ("ɐɗɢɥɪʞɬɲɹʃʇⱱʎʒ", "adghiklnrstvyz"),
        ("ꞗꜿꝺꝼᵹꜧꟾȷꝃꝇꟿꞑꝑꝗꝛꞅꞇỽꟃꭖꝣ", "bcdfghijklmnpqrstvwxz"),  # medieval
        ("ꝏꜳꜽ", "ooaaay"),
        ("ᗩᗷᑕᗪᖴᕼᒍᒪᗰᑎᑭᑫᖇᑌᐯᗯᘔ", "abcdfhjlmnpqruvwz"),  # syllabics
    ],
)
def test_letters_for_scholars_are_read_by_their_shape(alphabet: str, letters: str) -> None:
    assert alphabet.translate(look_alikes()) == letters


@pytest.mark.parametrize("word", ["þig", "hɔɔ", "şəxs", "mɛ", "maŋ", "bʊn", "mǝ", "æsse", "œuf"])
def test_letters_of_living_alphabets_stay(word: str) -> None:
    assert not word.translate(look_alikes()).isascii()


def test_letters_that_look_like_no_other_stay() -> None:
    assert "жשक東".translate(look_alikes()) == "жשक東"
    assert "abcxyz09".translate(look_alikes()) == "abcxyz09"


def test_every_letter_but_none_of_the_keyboard_is_covered() -> None:
    assert set("".join(look_alikes().values())) == set("abcdefghijklmnopqrstuvwxyz")
    assert not [code for code in look_alikes() if code < 128]

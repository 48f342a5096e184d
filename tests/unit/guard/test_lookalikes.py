"""Unicode's confusable characters lead to the letters that they look like."""

import pytest

from nextquery.guard.blocklist import look_alikes


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

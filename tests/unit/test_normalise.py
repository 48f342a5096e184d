import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.normalise import normalise_query


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("Bj's Wholesale  Club", "bjs wholesale club"),
        ("www.Example.com", "www example com"),
        ("  ", ""),
        ("Ünïcode—Straße", "ünïcode straße"),
        ("ＦＵＬＬ　width", "full width"),
        ("हिन्दी खोज", "हिन्दी खोज"),
        ("東京 ホテル", "東京 ホテル"),
        ("c++ / c#", "c c"),
        ("a\x00b", "a b"),
        ("a\u200bb\u00adc\u202ed\u2066e\ufefff\ufe0fg\u3164h", "abcdefgh"),
        ("می\u200cخواهم", "می خواهم"),  # a Persian non-joiner separates
        ("क्\u200dष", "क्ष"),  # an Indic joiner only changes how letters are drawn
        ("Ke$ha pa$$word b@d $100 us$ @home a$ b", "kesha password bad 100 us home a b"),
    ],
)
def test_known_cases(raw: str, clean: str) -> None:
    assert normalise_query(raw) == clean


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise_query(text)
    assert normalise_query(once) == once


@given(st.text())
def test_words_are_separated_by_single_spaces(text: str) -> None:
    assert normalise_query(text).split(" ") == (normalise_query(text).split() or [""])


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_the_ascii_shortcut_agrees_with_the_general_rule(text: str) -> None:
    assert normalise_query(text) == normalise_query(text + "\u200b")

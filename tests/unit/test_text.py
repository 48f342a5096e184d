"""Normalisation, words of scripts without spaces, and the cache of short texts."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.inference.near_duplicates import folding_key
from nextquery.normalise import break_words, cache_short_texts, join_words, normalise_query


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
def test_normalised_by_hand(raw: str, clean: str) -> None:
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("便宜的北京酒店", "便宜 的 北京 酒店"),
        ("便宜的台北飯店", "便宜 的 台北 飯店"),
        ("東京ホテル", "東京 ホテル"),
        ("東京の安いホテル", "東京の 安い ホテル"),
        ("โรงแรมราคาถูก", "โรงแรม ราคา ถูก"),
        ("iphone手机壳", "iphone 手机 壳"),
        ("فنادق باريس", "فنادق باريس"),
        ("отели москвы", "отели москвы"),
        ("", ""),
    ],
)
def test_words_are_found(text: str, words: str) -> None:
    assert break_words(text) == words
    assert normalise_query(text) == words


def test_spaces_that_were_typed_stay() -> None:
    assert break_words("北京 酒店") == break_words("北京酒店") == "北京 酒店"


@given(st.text("北京酒店便宜的東京のホテルโรงแรมราคาถูก ab1々", max_size=20))
def test_breaking_again_changes_nothing_and_loses_no_letter(text: str) -> None:
    broken = break_words(text)
    assert break_words(broken) == broken
    assert broken.replace(" ", "") == text.replace(" ", "")
    assert normalise_query(normalise_query(text)) == normalise_query(text)
    assert join_words(broken).replace(" ", "") == text.replace(" ", "")


def test_people_write_them_without_spaces() -> None:
    assert join_words("北京 酒店 wifi 免费") == "北京酒店 wifi 免费"
    assert join_words("red shoes") == "red shoes"


def test_only_short_texts_are_kept_and_only_the_last_of_them() -> None:
    computed: list[str] = []

    @cache_short_texts(entries=2, longest=3)
    def length(text: str, more: int = 0) -> int:
        computed.append(text)
        return len(text) + more

    assert [length("abc"), length("abc"), length("abc", 1), length("long"), length("long")] == [
        3, 3, 4, 4, 4,
    ]  # fmt: skip
    assert computed == ["abc", "abc", "long", "long"]
    length("d"), length("e"), length("abc")
    assert computed[-1] == "abc"


@pytest.mark.slow
def test_long_texts_of_strangers_do_not_fill_the_memory() -> None:
    """40 texts of 500 different words: some 2 MB where every result is kept."""
    folding_key("red shoes"), break_words("\u5317\u4eac\u9152\u5e97")  # loads their tables
    tracemalloc.start()
    try:
        for number in range(40):
            folding_key(" ".join(f"w{number}x{word}" for word in range(500)))
            break_words(
                "".join(chr(0x4E00 + (number * 97 + position) % 20_000) for position in range(500))
            )
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 800_000

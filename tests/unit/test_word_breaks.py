"""Scripts without spaces: words are found, found again, and written as people do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.normalise import break_words, join_words, normalise_query


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

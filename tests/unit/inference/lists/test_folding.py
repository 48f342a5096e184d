"""Near-copies among suggestions."""

import pytest

from nextquery.inference.near_duplicates import detect_language, fold, folding_key, languages


@pytest.mark.parametrize(
    "copy",
    ["paris hotels", "hotel paris", "hotels in paris", "the hotel paris", "hotels paris"],
)
def test_near_copies_have_the_same_folding_key(copy: str) -> None:
    assert folding_key(copy) == folding_key("hotel paris")


@pytest.mark.parametrize("other", ["paris", "hotel rome", "cheap hotel paris", "hostel paris"])
def test_other_queries_do_not(other: str) -> None:
    assert folding_key(other) != folding_key("hotel paris")


@pytest.mark.parametrize(
    ("one", "many"), [("city", "cities"), ("church", "churches"), ("box", "boxes"), ("car", "cars")]
)
def test_plurals_fold(one: str, many: str) -> None:
    assert folding_key(one) == folding_key(many)


def test_words_that_only_look_plural_stay() -> None:
    assert folding_key("bus") == ("bus",)
    assert folding_key("glass") == ("glass",)


def test_stop_words_alone_are_kept() -> None:
    assert folding_key("the who") == ("the", "who")


def test_the_first_of_near_copies_is_kept() -> None:
    assert fold(["hotel paris", "rome", "paris hotels", "hotels in rome"]) == [0, 1, 3]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("german", "schuhe für kinder", "kinder schuh"),
        ("french", "chaussures de sport", "chaussure sport"),
        ("spanish", "hoteles baratos en madrid", "hotel barato madrid"),
        ("russian", "отели москвы", "отель москва"),
        ("turkish", "ucuz oteller", "ucuz otel"),
        ("arabic", "المدرسة", "مدرسة"),
    ],
)
def test_near_copies_of_other_languages(language: str, one: str, other: str) -> None:
    assert folding_key(one, language) == folding_key(other, language)
    assert folding_key(one, language) != folding_key(f"{other} paris", language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("отели москвы", "russian"),
        ("الفنادق", "arabic"),
        ("ξενοδοχεία", "greek"),
        ("schuhe für kinder", "german"),
        ("hoteles en el centro de madrid", "spanish"),
        ("de niro movies", "english"),
        ("red shoes", "english"),
        ("café", "english"),
    ],
)
def test_the_language_is_told_from_the_text(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_languages_that_can_be_given() -> None:
    assert {"auto", "english", "arabic", "german"} <= set(languages())

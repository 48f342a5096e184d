"""The lexicon of the made-up log."""

import tomllib
from importlib import resources
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.logs.synthetic.queries import ENTITIES, load_lexicon, parse_lexicon
from nextquery.normalise import normalise_query


@pytest.fixture
def document() -> dict[str, Any]:
    file = resources.files("nextquery.logs.synthetic").joinpath("words.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def test_every_phrase_is_already_normal() -> None:
    for phrase in load_lexicon().phrases:
        assert phrase == normalise_query(phrase)


def test_some_thousand_words_in_more_than_a_dozen_domains() -> None:
    lexicon = load_lexicon()
    words = {word for phrase in lexicon.phrases for word in phrase.split()}
    assert len(words) > 2000
    assert len(lexicon.domains) > 12


def test_entities_are_different_in_all_domains_and_lie_where_they_should() -> None:
    lexicon = load_lexicon()
    start = lexicon.starts["entities"]
    entities = lexicon.phrases[start : start + len(lexicon.domains) * ENTITIES]
    assert len(set(entities)) == len(entities)
    assert entities[:4] == ("paris", "tokyo", "bali", "new york")


def test_a_missing_phrase_is_named(document: dict[str, Any]) -> None:
    document["travel"]["facets"].pop()
    with pytest.raises(InputError, match="travel needs 6 different facets"):
        parse_lexicon(document)


def test_a_word_that_gives_the_answer_away_is_named(document: dict[str, Any]) -> None:
    intents = document["travel"]["intents"]
    intents["family"]["signals"][0] = "hostels"
    with pytest.raises(InputError, match="travel has hostels in a signal and in an outcome"):
        parse_lexicon(document)


def test_extra_words_are_names_of_their_own_behind_the_lexicon_s() -> None:
    plain, larger = load_lexicon(), load_lexicon(2000)
    assert larger.members == 5 + 32, "64 families share them"
    known = {word for phrase in plain.phrases for word in phrase.split()}
    words = {word for phrase in larger.phrases for word in phrase.split()}
    assert len(words - known) == 32 * 64
    start = larger.starts["entities"]
    assert larger.phrases[start : start + 20] == plain.phrases[start : start + 20]
    assert larger.phrases[start + larger.entities] == plain.phrases[start + plain.entities]

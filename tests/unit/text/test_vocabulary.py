"""Words to ids and back."""

from pathlib import Path

import pytest

from nextquery.errors import ArtifactError
from nextquery.text.vocabulary import END_OF_QUERY, SPECIAL, UNKNOWN, Vocabulary


def test_a_query_comes_back_and_unknown_words_are_one_symbol() -> None:
    vocabulary = Vocabulary(["red", "shoes"])
    ids = vocabulary.encode("red suede shoes")
    assert ids == [3, UNKNOWN, 4, END_OF_QUERY]
    assert vocabulary.decode(ids) == "red <unk> shoes"
    assert vocabulary.decode([3, END_OF_QUERY, 4]) == "red", "nothing after the end"


def test_a_word_is_named_once() -> None:
    with pytest.raises(ArtifactError, match="names a word twice"):
        Vocabulary(["red", "red"])
    with pytest.raises(ArtifactError, match="names a word twice"):
        Vocabulary([SPECIAL[0]])


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    Vocabulary(["größe", "鞋"]).save(tmp_path / "words")
    assert Vocabulary.load(tmp_path / "words").words == (*SPECIAL, "größe", "鞋")
    (tmp_path / "words").write_bytes(b"\xff\n")
    with pytest.raises(ArtifactError, match="not a text in UTF-8"):
        Vocabulary.load(tmp_path / "words")

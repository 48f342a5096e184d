"""Blocked words stay blocked in every disguise, and honest words are left alone."""

from pathlib import Path

import pytest

from nextquery.errors import BlocklistError
from nextquery.guard.blocklist import Blocklist, read_blocklist


@pytest.mark.parametrize(
    "disguised",
    [
        "badword",
        "BadWord",
        "bádwörd",
        "bad\u200bword",
        "b4dw0rd",
        "bаdwоrd",  # Cyrillic а and о
        "ｂａｄｗｏｒｄ",
        "b@dword",
        "cheap badword online",
    ],
)
def test_a_blocked_word_is_found_in_every_disguise(disguised: str) -> None:
    assert Blocklist(["badword"]).blocks(disguised)


def test_the_entry_itself_may_be_written_in_disguise() -> None:
    assert Blocklist(["b4dw0rd"]).blocks("badword")


@pytest.mark.parametrize("text", ["badwords", "notbadword", "bad word", "455", ""])
def test_only_whole_words_match(text: str) -> None:
    assert not Blocklist(["badword", "ass"]).blocks(text)


def test_a_number_alone_is_no_leetspeak_but_a_mixed_word_is() -> None:
    assert not Blocklist(["ass"]).blocks("455")
    assert Blocklist(["ass"]).blocks("a55")


def test_a_phrase_is_blocked_anywhere_but_not_its_words_alone() -> None:
    blocklist = Blocklist(["make a bomb"])
    assert blocklist.blocks("how to make a b0mb at home")
    assert not blocklist.blocks("make a cake")
    assert not blocklist.blocks("bomb a make")


def test_the_last_word_is_judged_with_what_stands_before_it() -> None:
    blocklist = Blocklist(["make a bomb", "rude"])
    assert blocklist.blocks_last(["make", "a", "bomb"])
    assert not blocklist.blocks_last(["make", "a"])
    assert blocklist.blocks_last(["very", "rude"])
    assert not blocklist.blocks_last(["rude", "person"])
    assert blocklist.blocks_word("rud3")
    assert not blocklist.blocks_word("bomb")


def test_a_file_may_have_comments_and_empty_lines(tmp_path: Path) -> None:
    file = tmp_path / "blocked.txt"
    file.write_text("# words\n\nrude  # not nice\nmake a bomb\n", encoding="utf-8")
    blocklist = read_blocklist(file)
    assert len(blocklist) == 2
    assert blocklist.blocks("rude")
    assert not blocklist.blocks("nice")


@pytest.mark.parametrize("content", [b"", b"# only a comment\n", b"...\n", b"\xff\xfe\x00bad"])
def test_an_empty_or_unreadable_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "blocked.txt"
    file.write_bytes(content)
    with pytest.raises(BlocklistError, match=r"blocked\.txt"):
        read_blocklist(file)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BlocklistError, match="cannot be read"):
        read_blocklist(tmp_path / "none.txt")

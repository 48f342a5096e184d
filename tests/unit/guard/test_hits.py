"""The optional check that a suggestion would find something."""

from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.guard.guard import TitleHits, read_hits


def test_one_title_must_hold_all_words() -> None:
    hits = TitleHits(["Red Suede Boots", "blue shoes"])
    assert hits("boots red")
    assert not hits("red shoes"), "words of two titles"
    assert not hits("green")
    assert not hits("")


def test_a_file_is_read_and_an_empty_one_refused(tmp_path: Path) -> None:
    file = tmp_path / "titles"
    file.write_text("Red boots\n", encoding="utf-8-sig")
    assert read_hits(file)("red")
    file.write_text("\n--\n")
    with pytest.raises(InputError, match="names no query or title"):
        read_hits(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_hits(tmp_path / "none")

"""Correction of what visitors type, by the tables of a model folder."""

from pathlib import Path
from typing import Any

import pytest

from nextquery.guard.guard import Guard
from nextquery.guard.spelling import QuerySpeller, slips

from .conftest import publish_tables

SESSIONS = [
    *[(f"a{n}", ["depression treatment", "depression help"]) for n in range(60)],
    *[(f"b{n}", ["depression treatment", "new york hotels"]) for n in range(60)],
    *[(f"c{n}", ["manic depressive", "cheap hotels"]) for n in range(3)],
    *[(f"d{n}", ["walmart", "bets"]) for n in range(120)],
    *[("one person", ["planted secrets", "planted secrets"]) for _ in range(200)],
]


@pytest.fixture(scope="module")
def model(prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = prepared(tiny_log(SESSIONS, min_users=3, spelling=True))
    return publish_tables(data, tmp_path_factory.mktemp("corrected") / "model")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("depresion treatment", "depression treatment"),  # makes a known query
        ("depresion doctor", "depression doctor"),  # long, with a very frequent twin
        ("depressive", None),  # a form of its own that K users typed
        ("depressions", None),
        ("newyork hotels", "new york hotels"),
        ("depression treatment", None),  # known
        ("wlmart", "walmart"),
        ("bats", None),  # short, one letter replaced: another word
        ("plantid secrets", None),  # one person cannot plant a target
        ("12345678 treatmant", "12345678 treatmant"),
        ("", None),
    ],
)
def test_corrections(model: Path, typed: str, meant: str | None) -> None:
    correction = QuerySpeller(Guard.open(model)).correct(typed)
    changed = None if correction is None else correction.text
    assert changed == (None if meant == typed else meant)
    if correction is not None:
        assert correction.typed == typed
        assert correction.changes


def test_nothing_blocked_is_made_of_a_slip(model: Path, tmp_path: Path) -> None:
    (tmp_path / "blocklist").write_text("walmart\n")
    guard = Guard.open(model, tmp_path / "blocklist")
    assert QuerySpeller(guard).correct("wlmart") is None


def test_a_model_of_uncorrected_data_corrects_nothing(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=3))
    speller = QuerySpeller(Guard.open(publish_tables(data, tmp_path / "model")))
    assert not speller.enabled
    assert speller.correct("depresion treatment") is None


def test_slips_are_those_of_one_edit() -> None:
    """Against all edits of the typed text, tried one by one."""
    words = sorted(["hotel", "hotels", "hostel", "house", "mouse", "hot", "htoel", "ohtel"])
    for typed in ("hotel", "hotl", "hotle", "hotwl", "hotell", "ohtel", "htel", "xhotel"):
        result = set(slips(words, typed))
        letters = {letter for word in words for letter in word}
        edits = {typed[:i] + typed[i + 1 :] for i in range(1, len(typed))}
        edits |= {typed[:i] + c + typed[i + 1 :] for i in range(1, len(typed)) for c in letters}
        edits |= {typed[:i] + c + typed[i:] for i in range(1, len(typed)) for c in letters}
        exchanged = range(len(typed) - 1)
        edits |= {typed[:i] + typed[i + 1] + typed[i] + typed[i + 2 :] for i in exchanged}
        expected = {text for text in edits if any(word.startswith(text) for word in words)}
        assert result == expected - {typed}, typed

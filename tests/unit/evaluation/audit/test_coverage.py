"""What a blocklist holds back, counted."""

from pathlib import Path
from typing import Any

import pytest

from nextquery import load
from nextquery.evaluation.audit import coverage
from nextquery.guard.guard import Guard
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

SESSIONS = [
    *((f"a{n}", ("red shoes", "badword shop")) for n in range(3)),
    *((f"b{n}", ("red shoes", "red boots")) for n in range(6)),
]


@pytest.fixture
def model(prepared: Any, tiny_log: Any, tmp_path: Path) -> tuple[Any, Path]:
    data = prepared(tiny_log(SESSIONS, min_users=2))
    fit_model(Adjacency, data).save(tmp_path / "model")
    return data, tmp_path / "model"


def test_blocked_queries_and_suggestions_are_counted(
    model: tuple[Any, Path], tmp_path: Path
) -> None:
    data, folder = model
    blocklist = tmp_path / "blocklist.txt"
    blocklist.write_text("badword  # rude\nnasty phrase\n", encoding="utf-8")
    lists = load(folder, blocklist=blocklist), load(folder, guarded=False)
    found = coverage(data, *lists, Guard.open(folder, blocklist), blocklist)
    assert (found.entries, found.known_queries, found.let_through) == (2, 1, 0)
    assert found.traffic == pytest.approx(3 / 18)
    assert found.refused == {"blocklist": 1}
    assert found.disguises["as written"] == found.disguises["leetspeak"] == 1.0


@pytest.mark.parametrize("entry", ["x", "\u8272", "\uac00", "\u00e9", "7", "\U0001d4b3", "a b"])
def test_short_entries_are_counted_like_others(
    entry: str, model: tuple[Any, Path], tmp_path: Path
) -> None:
    data, folder = model
    blocklist = tmp_path / "blocklist.txt"
    blocklist.write_text(
        f"{entry}\n\U0001f642  # nothing that could be blocked\n", encoding="utf-8"
    )
    lists = load(folder, blocklist=blocklist), load(folder, guarded=False)
    found = coverage(data, *lists, Guard.open(folder, blocklist), blocklist)
    assert found.entries == 1
    assert found.disguises["as written"] == found.disguises["letters drawn out"] == 1.0


def test_without_a_blocklist_only_other_rules_refuse(model: tuple[Any, Path]) -> None:
    data, folder = model
    lists = load(folder), load(folder, guarded=False)
    found = coverage(data, *lists, Guard.open(folder), None)
    assert (found.entries, found.known_queries, found.refused, found.disguises) == (0, 0, {}, {})

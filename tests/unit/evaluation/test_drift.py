"""What changed between two logs is named, and a model that no longer fits is told."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.evaluation.drift import drift, perplexity
from nextquery.logs.data_folder import PreparedData
from nextquery.records import ScoredQuery
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

OLD = [(f"a{n}", ("red shoes", "red boots")) for n in range(6)]
OLD += [(f"b{n}", ("blue hats", "blue caps")) for n in range(2)]
SAME = [(f"c{n}", ("red shoes", "red boots")) for n in range(4)]
OTHER = [(f"d{n}", ("new phone", "phone case")) for n in range(4)]


@pytest.fixture
def log(prepared: Any, tiny_log: Any) -> Any:
    def make(sessions: list[Any], days: list[int]) -> PreparedData:
        found: PreparedData = prepared(tiny_log(sessions, days=days, min_users=2))
        found.path.joinpath("vocabulary.txt").write_text("", encoding="utf-8")
        words = found.counts("words").collect()["word"].to_list()
        found.words = lambda: words  # type: ignore[method-assign]
        return found

    return make


def test_the_same_again_needs_nothing(log: Any) -> None:
    found = drift(log([*OLD, *SAME], [0] * 8 + [1] * 4), log(OLD, [0] * 8))
    assert (found.new_sessions, found.new_words, found.vanished_queries) == (4, 0, 0)
    assert (found.unknown_words, found.unknown_queries) == (0.0, 0.0)
    assert not found.retrain


def test_splits_without_sessions_are_not_what_new_sessions_are_compared_with(log: Any) -> None:
    """Of no words all would be unknown, and nothing newer could be worse."""
    old = log(OLD, [0] * 8)
    usual = old.session_rows
    empty = usual("background").head(0)
    old.artifact.entry("counts")["sessions"] |= {"validation": 0, "test": 0}
    old.session_rows = lambda split: usual(split) if split == "background" else empty
    found = drift(log([*OLD, *OTHER], [0] * 8 + [1] * 4), old)
    assert (found.unknown_before, found.unknown_words) == (0.0, 1.0)
    assert found.retrain


def test_new_words_and_vanished_queries_are_named(log: Any, tmp_path: Path) -> None:
    old = log(OLD, [0] * 8)
    fit_model(Adjacency, old).save(tmp_path / "model")
    newer = log([*OLD[:6], *SAME[:1], *OTHER], [0] * 6 + [1] * 5)
    found = drift(newer, old, tmp_path / "model")
    assert {each.text for each in found.frequent_new_words} == {"phone", "new", "case"}
    assert found.frequent_new_words[0].users == 4
    assert {each.text for each in found.frequent_vanished} == {"blue hats", "blue caps"}
    assert found.vanished_share == pytest.approx(4 / 16)
    assert found.unknown_words == pytest.approx(16 / 20)
    assert found.unknown_queries == pytest.approx(8 / 10)
    assert found.fit is not None
    assert found.fit.new > 1.1 * found.fit.old
    assert len(found.reasons) == 2
    assert replace(found, reasons=()).retrain is False


def test_an_older_folder_is_refused(log: Any) -> None:
    with pytest.raises(InputError, match="give the newer folder first"):
        drift(log(OLD, [0] * 8), log([*OLD, *SAME], [0] * 8 + [1] * 4))


class Even:
    """Gives every symbol one chance in eight."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [
            ScoredQuery(text, (len(text.split()) + 1) * math.log(1 / 8), len(text.split()) + 1)
            for text in candidates
        ]


def test_perplexity_is_per_symbol() -> None:
    assert perplexity(Even(), [("a", "b c", "d"), ("e", "f")]) == pytest.approx(8)

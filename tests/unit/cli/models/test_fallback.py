from math import log
from pathlib import Path
from typing import Any

import pytest

from nextquery.cli.suggest import fall_back
from nextquery.guard.guard import Guard
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

SESSIONS = [
    *[(f"a{n}", ["diabetes type 2", "insulin"]) for n in range(3)],
    *[(f"b{n}", ["diabetes diet", "low sugar recipes"]) for n in range(2)],
    *[(f"c{n}", ["the news", "the weather"]) for n in range(5)],
]


@pytest.fixture
def model(prepared: Any, tiny_log: Any) -> Adjacency:
    return fit_model(Adjacency, prepared(tiny_log(SESSIONS)))


def test_queries_of_the_same_words_come_first(model: Adjacency) -> None:
    assert model.suggest(["diabetes"]) == []
    found = fall_back(model, ["diabetes"], 5)

    assert [item.text for item in found] == ["diabetes type 2", "diabetes diet"]
    assert found[0].source == "shares words with the last query; seen in the log (3 times)"


def test_the_score_is_frequency_times_the_share_of_rare_words(model: Adjacency) -> None:
    best = fall_back(model, ["diabetes"], 1)[0]
    # 3 of 20 queries and one imagined; 5 times "diabetes", 3 times "type" and "2" among 42 words,
    # 20 ends and one unknown word.
    diabetes, rest = log(63 / 5), 2 * log(63 / 3)
    assert best.score == pytest.approx(log(3 / 21) + log(diabetes / (diabetes + rest)))


def test_frequent_queries_where_no_word_is_known(model: Adjacency) -> None:
    found = fall_back(model, ["zyzzyva"], 2)

    assert [item.text for item in found] == ["the news", "the weather"]
    assert found[0].source == "frequent, whatever came before; seen in the log (5 times)"


def test_neither_the_session_nor_what_the_guard_refuses_is_shown(
    model: Adjacency, tmp_path: Path
) -> None:
    (tmp_path / "blocked.txt").write_text("insulin\n")
    model.guard = Guard(blocklist=tmp_path / "blocked.txt")
    shown = {item.text for item in fall_back(model, ["the news", "zyzzyva"], 20)}

    assert "the news" not in shown
    assert "insulin" not in shown
    assert "diabetes diet" in shown


def test_no_more_than_asked_for(model: Adjacency) -> None:
    assert fall_back(model, [], 0) == []
    assert len(fall_back(model, [], 3)) == 3

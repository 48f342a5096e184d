from pathlib import Path
from typing import Any

import pytest

from nextquery import load
from nextquery.records import Suggestion
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.base import Adjustable
from nextquery.suggesters.count_completion import FrequentCompletion, diverse
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.popularity import Popularity

SESSIONS = [
    ("u1", ["red shoes", "red boots"]),
    ("u2", ["red shoes", "red boots"]),
    ("u3", ["blue hat", "red scarf"]),
    ("u4", ["red boots", "green bag"]),
]


@pytest.fixture
def completion(prepared: Any, tiny_log: Any, tmp_path: Path) -> FrequentCompletion:
    fit_model(Adjacency, prepared(tiny_log(SESSIONS))).save(tmp_path / "model")
    suggester: Any = load(tmp_path / "model")
    return FrequentCompletion(suggester, suggester.guard)


def texts(found: list[Suggestion]) -> list[str]:
    return [item.text for item in found]


def test_known_queries_with_the_beginning_most_likely_first(completion: FrequentCompletion) -> None:
    # "red boots" was typed 3 times, "red shoes" twice, "red scarf" once.
    assert texts(completion.complete([], "RED", 5)) == ["red boots", "red shoes", "red scarf"]
    assert texts(completion.complete([], "red s", 5)) == ["red shoes", "red scarf"]
    assert texts(completion.complete([], "red ", 1)) == ["red boots"]


def test_the_session_decides_the_order(completion: FrequentCompletion) -> None:
    # After "blue hat" only "red scarf" was ever typed.
    assert texts(completion.complete(["blue hat"], "red", 5))[0] == "red scarf"


def test_a_query_of_the_session_is_not_offered_again(completion: FrequentCompletion) -> None:
    assert "red boots" not in texts(completion.complete(["Red boots"], "red", 5))


def test_nothing_begins_so(completion: FrequentCompletion) -> None:
    assert completion.complete([], "zebra", 5) == []


def test_diversity_prefers_words_not_yet_shown() -> None:
    found = [
        Suggestion("red shoes", -1.0, ""),
        Suggestion("red shoes sale", -1.1, ""),
        Suggestion("blue hat", -2.0, ""),
    ]
    assert texts(diverse(found, 2, 0.0)) == ["red shoes", "red shoes sale"]
    assert texts(diverse(found, 2, 0.8)) == ["red shoes", "blue hat"]


def test_any_model_can_give_a_diverse_list(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    fit_model(Popularity, prepared(tiny_log(SESSIONS))).save(tmp_path / "model")
    model = load(tmp_path / "model")
    assert isinstance(model, Adjustable)
    assert texts(model.suggest([], 2, diversity=0.0)) == ["red boots", "red shoes"]
    assert texts(model.suggest([], 2, diversity=0.9)) == ["red boots", "blue hat"]

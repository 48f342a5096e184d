import random
from pathlib import Path
from typing import Any

import pytest

from nextquery import load
from nextquery.records import Suggestion
from nextquery.suggesters import count_suggester
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.base import Adjustable
from nextquery.suggesters.count_suggester import KnownCompletion, diverse
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import COUNT_MODELS, count_model
from nextquery.suggesters.popularity import Popularity, PopularitySettings

SESSIONS = [
    ("u1", ["red shoes", "red boots"]),
    ("u2", ["red shoes", "red boots"]),
    ("u3", ["blue hat", "red scarf"]),
    ("u4", ["red boots", "green bag"]),
]


@pytest.fixture
def completion(prepared: Any, tiny_log: Any, tmp_path: Path) -> KnownCompletion:
    fit_model(Adjacency, prepared(tiny_log(SESSIONS))).save(tmp_path / "model")
    suggester: Any = load(tmp_path / "model")
    return KnownCompletion(suggester, suggester.guard)


def texts(found: list[Suggestion]) -> list[str]:
    return [item.text for item in found]


def test_known_queries_with_the_beginning_most_likely_first(completion: KnownCompletion) -> None:
    # "red boots" was typed 3 times, "red shoes" twice, "red scarf" once.
    assert texts(completion.complete([], "RED", 5)) == ["red boots", "red shoes", "red scarf"]
    assert texts(completion.complete([], "red s", 5)) == ["red shoes", "red scarf"]
    assert texts(completion.complete([], "red ", 1)) == ["red boots"]


def test_the_session_decides_the_order(completion: KnownCompletion) -> None:
    # After "blue hat" only "red scarf" was ever typed.
    assert texts(completion.complete(["blue hat"], "red", 5))[0] == "red scarf"


def test_a_query_of_the_session_is_not_offered_again(completion: KnownCompletion) -> None:
    assert "red boots" not in texts(completion.complete(["Red boots"], "red", 5))


def test_nothing_begins_so(completion: KnownCompletion) -> None:
    assert completion.complete([], "zebra", 5) == []


def made_sessions(count: int) -> list[tuple[str, list[str]]]:
    """Sessions over a few hundred queries, most of which come once or twice."""
    draw = random.Random(5)
    words = [f"{letter}{number}" for letter in "ab" for number in range(12)]
    return [
        (f"u{n}", [" ".join(draw.choices(words, k=draw.choice((1, 1, 2)))) for _ in range(3)])
        for n in range(count)
    ]


@pytest.mark.parametrize("kind", COUNT_MODELS)
@pytest.mark.parametrize("refused", [False, True], ids=["all allowed", "some blocked"])
def test_completions_are_the_likeliest_of_all_known_queries(
    kind: str,
    refused: bool,
    prepared: Any,
    tiny_log: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(count_suggester, "FREQUENT", 2)
    sessions = made_sessions(150)
    clicks = [(user, queries[-1], f"u{len(queries[-1]) % 3}.com") for user, queries in sessions]
    data = prepared(tiny_log(sessions, clicks=clicks))
    fit_model(count_model(kind), data).save(tmp_path / "model")
    if refused:
        (tmp_path / "blocked.txt").write_text("a1\na5\nb2\n")
    model: Any = load(tmp_path / "model", blocklist=tmp_path / "blocked.txt" if refused else None)
    known = model.guard.tables.queries
    for context in ([], sessions[0][1][:1], sessions[1][1][:2], ["b3"], ["never seen"]):
        for prefix in ("a", "a1", "b2 ", "b"):
            possible = [
                text
                for text in known.keys(prefix)
                if text not in context and model.guard.refusal(text) is None
            ]
            scores = (item.log_likelihood for item in model.score(context, possible))
            found = model.complete(context, prefix, 4)
            assert set(texts(found)) <= set(possible)
            # by score: equally likely ones may differ in the last digit
            best = pytest.approx(sorted(scores, reverse=True)[:4])
            assert [item.score for item in found] == best, (context, prefix)


def test_recent_queries_come_first_where_popularity_forgets(
    prepared: Any, tiny_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_suggester, "FREQUENT", 1)
    sessions = [("u1", ["red old"]), ("u2", ["red old"]), ("u3", ["red new"])]
    data = prepared(tiny_log(sessions, days=[0, 0, 30]))
    fit_model(Popularity, data, PopularitySettings(half_life_days=5)).save(tmp_path / "model")
    assert texts(load(tmp_path / "model").complete([], "red", 1)) == ["red new"]  # type: ignore[attr-defined]


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

"""A planted copy is the data folder of a log in which the planted sessions were typed."""

from pathlib import Path
from typing import Any

from nextquery.evaluation.planting import PlantedSession, write_planted
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

SESSIONS = [(f"user{n}", ("red shoes", "red boots")) for n in range(4)]


def test_planted_sessions_are_counted(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=2))
    extra = [PlantedSession(f"fake{n}", ("red shoes", "blue hats")) for n in range(2)]
    made = write_planted(data, tmp_path / "planted", extra, min_users=2)
    found = dict(made.counts("queries").select("query", "count").collect().iter_rows())
    assert found == {"red shoes": 6, "red boots": 4, "blue hats": 2}
    assert made.min_users == 2
    rows = made.session_rows("background").collect()
    assert rows.schema == data.session_rows("background").collect().schema
    assert rows["session"].n_unique() == 6
    last = rows.filter(rows["query"] == "blue hats")
    assert last["clicks"].to_list() == [1, 1]
    texts = [each.text for each in fit_model(Adjacency, made).suggest(["red shoes"])]
    assert texts == ["red boots", "blue hats"]


def test_k_stands_in_their_way(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=3))
    extra = [PlantedSession(f"fake{n}", ("red shoes", "blue hats")) for n in range(2)]
    made = write_planted(data, tmp_path / "planted", extra, min_users=3)
    assert "blue hats" not in made.counts("queries").collect()["query"]
    assert "blue" not in made.words()
    assert made.session_rows("background").collect()["query"].to_list().count("blue hats") == 2


def test_nothing_planted_is_the_same_log(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=2))
    made = write_planted(data, tmp_path / "planted", [], min_users=2)
    same = [
        each.counts("queries").select("query", "count", "users").collect() for each in (made, data)
    ]
    assert same[0].equals(same[1])

"""The guard's tables: fingerprints, what is written, and what is refused on opening; hits."""

import json
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.artifacts import publish
from nextquery.errors import ArtifactError, InputError
from nextquery.guard.fingerprints import RareSet, pair_key, pair_keys, text_key, text_keys
from nextquery.guard.guard import TitleHits, read_hits
from nextquery.guard.tables import Tables, open_tables, write_tables

from .conftest import DataMaker, publish_tables


def test_one_key_is_judged_as_in_a_batch() -> None:
    texts = ["red", "shoes", "", "東京", *map(str, range(500))]
    keys = text_keys(texts, b"secret")
    assert [text_key(text, b"secret") for text in texts] == keys.tolist()
    pairs = pair_keys(keys[:-1], keys[1:])
    alone = [pair_key(*map(int, pair)) for pair in pairwise(keys.tolist())]
    assert alone == pairs.tolist()
    rare = RareSet.build(pairs[::3])
    assert [rare.has(key) for key in alone] == rare.contains(pairs).tolist()
    assert not all(map(rare.has, alone))


@given(st.lists(st.text(), max_size=50))
def test_a_member_is_never_missed(texts: list[str]) -> None:
    keys = text_keys(texts, b"secret")
    assert RareSet.build(keys).contains(keys).all()


def test_about_one_in_seventy_others_is_claimed_wrongly() -> None:
    members = text_keys((f"in {number}" for number in range(50_000)), b"secret")
    rest = text_keys((f"out {number}" for number in range(50_000)), b"secret")
    share = RareSet.build(members).contains(rest).mean()
    assert 0.010 < share < 0.018


def test_the_order_of_a_pair_and_the_secret_matter() -> None:
    forward = pair_keys(text_keys(["a", "b"], b"one"), text_keys(["b", "a"], b"one"))
    assert forward[0] != forward[1]
    assert text_keys(["a"], b"one") != text_keys(["a"], b"two")


CROWD = [(f"user{number}", ["hotel paris", "cheap hotel"]) for number in range(3)]
ALONE = ("diarist", ["wine hotel", "hotel paris", "wine"])


def pair(tables: Tables, first: str, second: str) -> int:
    keys = text_keys([first, second], tables.secret)
    return int(pair_keys(keys[:1], keys[1:])[0])


def test_what_at_least_k_users_typed_is_known_with_its_count(
    make_data: DataMaker, tmp_path: Path
) -> None:
    tables = open_tables(publish_tables(make_data([*CROWD, ALONE], 3), tmp_path / "model"))
    assert tables.min_users == 3
    assert tables.count("hotel paris") == 4
    assert tables.count("wine hotel") == tables.count("nobody typed this") == 0
    searches = sum(len(queries) for _, queries in [*CROWD, ALONE])
    assert tables.log_share("hotel paris") == log(4 / searches)
    assert tables.log_share("wine hotel") is None
    assert sorted(tables.words) == ["cheap", "hotel", "paris"]


def test_pairs_and_queries_of_fewer_users_are_only_fingerprints(
    make_data: DataMaker, tmp_path: Path
) -> None:
    tables = open_tables(publish_tables(make_data([*CROWD, ALONE], 3), tmp_path / "model"))
    assert pair(tables, "hotel", "paris") in tables.common_pairs.tolist()
    assert pair(tables, "wine", "hotel") not in tables.common_pairs.tolist()
    both = [pair(tables, "wine", "hotel"), pair(tables, "hotel", "paris")]
    assert tables.rare_pairs.contains(np.array(both, np.uint64)).tolist() == [True, False]
    rare = text_keys(["wine hotel", "hotel paris"], tables.secret)
    assert tables.rare_queries.contains(rare).tolist() == [True, False]
    for file in (tmp_path / "model" / "guard").iterdir():
        assert b"wine" not in file.read_bytes()


def test_two_logs_have_different_keys(make_data: DataMaker, tmp_path: Path) -> None:
    keys = []
    for number, sessions in enumerate(([*CROWD], [*CROWD, ALONE])):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_tables(make_data(sessions, 3), folder)
        keys.append(json.loads((folder / "guard" / "settings.json").read_text())["key"])
    assert keys[0] != keys[1]


def test_tables_that_know_nothing_refuse_nothing() -> None:
    tables = Tables()
    tables.check()
    assert (tables.min_users, tables.count("anything"), len(tables.words)) == (1, 0, 0)
    assert not tables.rare_pairs.contains(np.array([12345], np.uint64)).any()


UNREADABLE = r"settings.json: cannot be read .*make the model"
SENSELESS = "not as it should be; make the model again"


@pytest.mark.parametrize(
    ("name", "contents", "problem"),
    [
        ("settings.json", "not json", UNREADABLE),
        ("settings.json", "[]", UNREADABLE),
        ("settings.json", '{"min_users": 3}', UNREADABLE),
        ("settings.json", '{"min_users": 3, "key": "no hex"}', UNREADABLE),
        ("settings.json", '{"min_users": 0, "key": ""}', SENSELESS),
        ("settings.json", '{"min_users": true, "key": ""}', SENSELESS),
        ("settings.json", '{"min_users": 3, "key": "", "searches": -1}', SENSELESS),
        ("settings.json", '{"min_users": 3, "key": "", "searches": 0.5}', SENSELESS),
        ("settings.json", json.dumps({"min_users": 3, "key": "00" * 65}), SENSELESS),
        ("common_pairs.npy", np.array([5, 3], np.uint64), "common_pairs are out of order"),
        ("common_pairs.npy", np.array([3, 5], np.uint32), "common_pairs are not keys"),
        ("rare_pairs.npy", np.zeros(0, np.uint8), "rare_pairs is not a filter"),
        ("rare_queries.npy", np.zeros(0, np.uint8), "rare_queries is not a filter"),
    ],
)
def test_contents_that_no_version_wrote_are_refused(
    make_data: DataMaker, tmp_path: Path, name: str, contents: Any, problem: str
) -> None:
    with publish(tmp_path / "model", "adjacency", {}) as partial:
        write_tables(make_data(CROWD, 3), partial)
        file = partial / "guard" / name
        if isinstance(contents, np.ndarray):
            np.save(file, contents)
        else:
            file.write_text(contents)
    with pytest.raises(ArtifactError, match=problem):
        open_tables(tmp_path / "model")


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

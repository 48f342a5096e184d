"""The tables of a small log: what is known, what is rare, and that only known texts are written."""

import json
from pathlib import Path

import numpy as np

from nextquery.artifacts import publish
from nextquery.guard.fingerprints import pair_keys, text_keys
from nextquery.guard.tables import Tables, open_tables, write_tables
from nextquery.logs.data_folder import PreparedData

from .conftest import DataMaker

CROWD = [(f"user{number}", ["hotel paris", "cheap hotel"]) for number in range(3)]
ALONE = ("diarist", ["wine hotel", "hotel paris", "wine"])


def tables_of(data: PreparedData, folder: Path) -> Tables:
    with publish(folder, "adjacency", {}) as partial:
        write_tables(data, partial)
    return open_tables(folder)


def pair(tables: Tables, first: str, second: str) -> int:
    keys = text_keys([first, second], tables.secret)
    return int(pair_keys(keys[:1], keys[1:])[0])


def test_what_at_least_k_users_typed_is_known_with_its_count(
    make_data: DataMaker, tmp_path: Path
) -> None:
    tables = tables_of(make_data([*CROWD, ALONE], 3), tmp_path / "model")
    assert tables.min_users == 3
    assert tables.count("hotel paris") == 4
    assert tables.count("wine hotel") == tables.count("nobody typed this") == 0
    assert sorted(tables.words) == ["cheap", "hotel", "paris"]


def test_pairs_and_queries_of_fewer_users_are_only_fingerprints(
    make_data: DataMaker, tmp_path: Path
) -> None:
    tables = tables_of(make_data([*CROWD, ALONE], 3), tmp_path / "model")
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

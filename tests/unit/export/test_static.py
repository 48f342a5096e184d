import json
from pathlib import Path

from nextquery.export.engines import ExportedQuery, NextQuery
from nextquery.export.static import StaticLists, shard_characters, shard_of, write_static

QUERIES = [
    *[
        ExportedQuery(
            f"query {n}",
            10,
            (NextQuery("next", -1.0), NextQuery(f"query {n + 1}", -2.0)),
        )
        for n in range(50)
    ],
    ExportedQuery("end", 1, ()),
]


def test_every_list_is_found_again(tmp_path: Path) -> None:
    facts = write_static(QUERIES, tmp_path)
    assert facts.lists == 50
    lists = StaticLists(tmp_path)
    for n in range(50):
        assert lists.suggest([f"query {n}"]) == ["next", f"query {n + 1}"]
    assert json.loads((tmp_path / "index.json").read_text())["lists"] == 50


def test_nothing_is_suggested_that_the_session_has(tmp_path: Path) -> None:
    write_static(QUERIES, tmp_path)
    assert StaticLists(tmp_path).suggest(["query 4", "query 3"]) == ["next"]


def test_an_unknown_query_has_no_list(tmp_path: Path) -> None:
    write_static(QUERIES, tmp_path)
    lists = StaticLists(tmp_path)
    assert lists.suggest(["never typed"]) == []
    assert lists.suggest(["query 7", "never typed"]) == ["next", "query 8"], "of the one before"
    assert lists.suggest(["end"]) == []
    assert lists.suggest([]) == []


def test_words_of_scripts_without_spaces_are_written_together(tmp_path: Path) -> None:
    following = (NextQuery("\u5317\u4eac", -1.0), NextQuery("tea", -2.0))
    write_static([ExportedQuery("\u4fbf\u5b9c\u9152\u5e97", 5, following)], tmp_path)
    broken = "\u4fbf\u5b9c \u9152\u5e97"
    assert StaticLists(tmp_path).suggest(["\u5317\u4eac", broken]) == ["tea"]


def test_the_shard_is_the_beginning_of_the_hash() -> None:
    assert {len(shard_of(f"{n}", 3)) for n in range(100)} == {3}
    assert shard_of("paris", 4).startswith(shard_of("paris", 2))


def test_shards_stay_small_however_many_lists_there_are() -> None:
    for lists in (10, 5_000, 70_000, 1_000_000):
        assert lists / 16 ** shard_characters(lists) <= 64


def test_a_visit_costs_the_index_and_each_of_its_shards_once(tmp_path: Path) -> None:
    write_static(QUERIES, tmp_path)
    lists = StaticLists(tmp_path)
    index = (tmp_path / "index.json").stat().st_size
    shards = {shard_of(query, 1) for query in ("query 1", "query 2")}
    sizes = [(tmp_path / "shards" / f"{name}.json.gz").stat().st_size for name in shards]
    assert lists.visit_bytes(["query 1", "query 2", "query 1"]) == index + sum(sizes)
    assert lists.visit_bytes([]) == index


def test_the_same_lists_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_static(QUERIES, tmp_path / name)
    for file in (tmp_path / "one" / "shards").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / "shards" / file.name).read_bytes()

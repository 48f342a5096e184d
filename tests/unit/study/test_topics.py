from pathlib import Path

import polars as pl
import pytest

from nextquery.artifacts import publish
from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.study.pool import Topic, add_contexts, read_topics, sample_topics

TREC = """<?xml version="1.0"?>
<topics><topic number="1" type="faceted"><query>garden shed</query>
<description>Find plans for a
garden shed.</description><subtopic number="1">x</subtopic></topic>
<topic number="2"><query> </query></topic></topics>"""


@pytest.fixture
def data(tmp_path: Path) -> PreparedData:
    sessions = {1: ["shed", "garden shed"], 2: ["barn", "garden shed"], 3: ["cat food", "dog food"]}
    rows = [
        {"session": number, "position": place, "user": "u", "query": query}
        for number, queries in sessions.items()
        for place, query in enumerate(queries)
    ]
    entries = {"counts": {"sessions": {"test": 3}}, "settings": {"min_users": 1}}
    with publish(tmp_path / "data", "data", entries) as folder:
        (folder / "sessions" / "test").mkdir(parents=True)
        pl.DataFrame(rows).write_parquet(folder / "sessions" / "test" / "part-00000.parquet")
    return PreparedData(tmp_path / "data")


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_trec_csv_and_text_files(tmp_path: Path) -> None:
    expected = [Topic("garden shed", "Find plans for a garden shed.")]
    assert read_topics(_write(tmp_path, "t.xml", TREC)) == expected
    table = 'query,description\ngarden shed,"Find plans for a garden shed."\n'
    assert read_topics(_write(tmp_path, "t.csv", table)) == expected
    lines = "garden shed\n\nGarden  Shed!\ndog food\n"
    assert read_topics(_write(tmp_path, "t.txt", lines)) == [
        Topic("garden shed"),
        Topic("dog food"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("t.txt", "\n\n", "no topic"),
        ("t.csv", "text\nx\n", "column 'query'"),
        ("t.xml", "<topics><topic>", "well-formed"),
        ("t.xml", '<!DOCTYPE t [<!ENTITY a "b">]><t/>', "entities"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_topics(_write(tmp_path, name, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt"):
        read_topics(tmp_path / "none.txt")


def test_a_topic_comes_once_with_every_context_that_led_to_it(data: PreparedData) -> None:
    topics = add_contexts([Topic("Garden shed", "why"), Topic("cat food")], data)
    assert topics == [
        Topic("Garden shed", "why", ("barn",)),
        Topic("Garden shed", "why", ("shed",)),
        Topic("cat food"),
    ]


def test_at_most_so_many_contexts_are_drawn_by_seed(data: PreparedData) -> None:
    given = [Topic("garden shed"), Topic("cat food")]
    drawn = {tuple(t.context for t in add_contexts(given, data, 1, seed)) for seed in range(20)}
    assert drawn == {(("barn",), ()), (("shed",), ())}
    assert add_contexts(given, data, 2) == add_contexts(given, data)


def test_sampled_topics_are_distinct_and_decided_by_the_seed(data: PreparedData) -> None:
    topics = sample_topics(data, 2, seed=3)
    assert {topic.query for topic in topics} == {"garden shed", "dog food"}
    assert topics == sample_topics(data, 2, seed=3)
    with pytest.raises(InputError, match="only 2"):
        sample_topics(data, 3, seed=3)

"""The files against the shapes that the engines document."""

import json
from pathlib import Path
from typing import Any

import pytest

from nextquery.export.engines import ANYWHERE, ENGINES, INDEX, ExportedQuery, NextQuery

QUERIES = [
    ExportedQuery("red shoes", 8, (NextQuery("red boots", -1.0, 4), NextQuery("hats", -2.0))),
    ExportedQuery("caf\u00e9 \u6771\u4eac", 2**40, ()),
]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", ENGINES)
def test_every_line_is_one_json_object(name: str, tmp_path: Path) -> None:
    ENGINES[name](QUERIES, tmp_path)
    by_line = [file for file in tmp_path.iterdir() if file.suffix in (".ndjson", ".jsonl")]
    assert len(by_line) == 1
    assert all(isinstance(line, dict) for line in lines(by_line[0]))
    for file in tmp_path.glob("*.json"):
        assert json.loads(file.read_text(encoding="utf-8"))


def test_algolia_objects_have_an_id_and_are_ranked_by_popularity(tmp_path: Path) -> None:
    ENGINES["algolia"](QUERIES, tmp_path)
    objects = lines(tmp_path / "objects.ndjson")
    assert [item["query"] for item in objects] == ["red shoes", "caf\u00e9 \u6771\u4eac"]
    assert all(isinstance(item["objectID"], str) and item["objectID"] for item in objects)
    assert objects[0]["popularity"] == 8
    assert (
        "desc(popularity)" in json.loads((tmp_path / "settings.json").read_text())["customRanking"]
    )


def test_typesense_documents_fit_the_schema(tmp_path: Path) -> None:
    ENGINES["typesense"](QUERIES, tmp_path)
    schema = json.loads((tmp_path / "schema.json").read_text())
    types = {field["name"]: field["type"] for field in schema["fields"]}
    assert {"q": "string", "count": "int32"}.items() <= types.items()
    assert schema["default_sorting_field"] == "count"
    for document in lines(tmp_path / "documents.jsonl"):
        assert set(document) - {"id"} <= set(types)
        assert isinstance(document["id"], str)
        assert 0 <= document["count"] < 2**31
        assert all(isinstance(text, str) for text in document["next"])


def test_meilisearch_ids_have_only_the_characters_it_takes(tmp_path: Path) -> None:
    ENGINES["meilisearch"](QUERIES, tmp_path)
    for document in lines(tmp_path / "documents.ndjson"):
        assert document["id"].isalnum()
    rules = json.loads((tmp_path / "settings.json").read_text())["rankingRules"]
    assert rules[-1] == "count:desc"


@pytest.mark.parametrize("name", ["elasticsearch", "opensearch"])
def test_the_completion_field_has_the_query_before_as_context(name: str, tmp_path: Path) -> None:
    ENGINES[name](QUERIES, tmp_path)
    mapping = json.loads((tmp_path / "index.json").read_text())["mappings"]["properties"]["suggest"]
    assert mapping == {
        "type": "completion",
        "contexts": [{"name": "previous", "type": "category"}],
    }
    bulk = lines(tmp_path / "bulk.ndjson")
    actions, documents = bulk[::2], bulk[1::2]
    assert len({action["index"]["_id"] for action in actions}) == len(documents) == 4
    assert all(action["index"]["_index"] == INDEX for action in actions)
    fields = [document["suggest"] for document in documents]
    assert [field["contexts"]["previous"] for field in fields] == [
        [ANYWHERE], ["red shoes"], ["red shoes"], [ANYWHERE],
    ]  # fmt: skip
    weights = [field["weight"] for field in fields]
    assert 2**31 > weights[1] > weights[2] > weights[3] > weights[0] == 8
    # What it is ranked by is not how often it was typed.
    assert [document["count"] for document in documents] == [8, 4, 0, 2**40]

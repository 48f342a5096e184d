"""Exported lists: what leaves, in the shapes that the engines document, and static files."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError
from nextquery.export.export import LIST_TARGETS, export_model
from nextquery.export.lists import (
    ANYWHERE,
    ENGINES,
    INDEX,
    ExportedQuery,
    ExportSettings,
    NextQuery,
    StaticLists,
    exported_queries,
    frequent_queries,
    measure_static,
    shard_characters,
    shard_of,
    write_static,
)
from nextquery.records import Session, Suggestion
from nextquery.suggesters.base import Suggester


def test_queries_come_by_count_and_only_those_that_may_be_shown(model: Suggester) -> None:
    assert frequent_queries(model, 10) == [("red shoes", 8), ("red boots", 4)]
    assert frequent_queries(model, 1) == [("red shoes", 8)]


def test_what_follows_is_what_the_model_suggests(model: Suggester) -> None:
    first, second = exported_queries(model, ExportSettings())
    [suggested] = model.suggest(["red shoes"])
    assert first.following == (NextQuery("red boots", suggested.score, 4),)
    assert second.following == ()


@pytest.mark.parametrize("target", LIST_TARGETS)
def test_an_export_is_complete_and_has_nothing_of_one_user_or_blocked(
    target: str, model: Suggester, tmp_path: Path
) -> None:
    facts = export_model(model, target, tmp_path / "out")
    artifact = open_artifact(tmp_path / "out", "export")
    artifact.verify()
    assert artifact.manifest["counts"]["queries"] == facts.queries == 2
    assert facts.next_queries == 1
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    written = "".join(
        (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        for path in files
    )
    assert "red boots" in written
    assert "secret" not in written
    assert "blue" not in written


@pytest.mark.parametrize("target", ["json", "typesense", "meilisearch", "opensearch"])
def test_a_count_is_how_often_a_query_was_typed(
    target: str, model: Suggester, tmp_path: Path
) -> None:
    export_model(model, target, tmp_path / "out")
    files = (tmp_path / "out").iterdir()
    [path] = [file for file in files if file.suffix in (".ndjson", ".jsonl")]
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    documents += [item for document in documents for item in document.get("next", [])]
    counts = {
        (document.get("query", document.get("q")), document["count"])
        for document in documents
        if isinstance(document, dict) and "count" in document
    }
    assert counts == {("red shoes", 8), ("red boots", 4)}


def test_what_cannot_be_exported_is_refused(model: Suggester, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"`to` solr: must be one of .*typesense"):
        export_model(model, "solr", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for name in ("queries", "next_queries"):
        with pytest.raises(InputError, match=f"`{name}` 0: must be at least 1"):
            ExportSettings(**{name: 0})


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
    assert mapping == {"type": "completion", "contexts": [{"name": "previous", "type": "category"}]}
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


STATIC_QUERIES = [
    *[
        ExportedQuery(
            f"query {n}", 10, (NextQuery("next", -1.0), NextQuery(f"query {n + 1}", -2.0))
        )
        for n in range(50)
    ],
    ExportedQuery("end", 1, ()),
]


def test_every_list_is_found_again(tmp_path: Path) -> None:
    write_static(STATIC_QUERIES, tmp_path)
    lists = StaticLists(tmp_path)
    for n in range(50):
        assert lists.suggest([f"query {n}"]) == ["next", f"query {n + 1}"]
    assert json.loads((tmp_path / "index.json").read_text())["lists"] == 50


def test_nothing_is_suggested_that_the_session_has(tmp_path: Path) -> None:
    write_static(STATIC_QUERIES, tmp_path)
    assert StaticLists(tmp_path).suggest(["query 4", "query 3"]) == ["next"]


def test_an_unknown_query_has_no_list(tmp_path: Path) -> None:
    write_static(STATIC_QUERIES, tmp_path)
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


def test_shards_stay_small_however_many_lists_there_are() -> None:
    for lists in (10, 5_000, 70_000, 1_000_000):
        assert lists / 16 ** shard_characters(lists) <= 64


def test_a_visit_costs_the_index_and_each_of_its_shards_once(tmp_path: Path) -> None:
    write_static(STATIC_QUERIES, tmp_path)
    lists = StaticLists(tmp_path)
    index = (tmp_path / "index.json").stat().st_size
    shards = {shard_of(query, 1) for query in ("query 1", "query 2")}
    sizes = [(tmp_path / "shards" / f"{name}.json.gz").stat().st_size for name in shards]
    assert lists.visit_bytes(["query 1", "query 2", "query 1"]) == index + sum(sizes)
    assert lists.visit_bytes([]) == index


def test_the_same_lists_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_static(STATIC_QUERIES, tmp_path / name)
    for file in (tmp_path / "one" / "shards").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / "shards" / file.name).read_bytes()


LISTS = {("a",): ["b", "c"], ("a", "b"): ["c", "d"], ("q",): ["b"]}


class TwoSessions:
    """A data folder's test split."""

    path = Path("data")

    def sessions(self, split: str) -> list[Session]:
        assert split == "test"
        return [Session(1, "x", ("a", "b", "c")), Session(2, "y", ("q", "b"))]


class Given:
    """A model whose lists are known."""

    kind = "given"

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(text, 0.0, "") for text in LISTS[tuple(context)]]


def exported(text: str, *following: str) -> ExportedQuery:
    return ExportedQuery(text, 1, tuple(NextQuery(item, 0.0) for item in following))


def test_it_counts_by_hand(tmp_path: Path) -> None:
    """Contexts: a (next b), a b (next c), q (next b); the files know a and b only."""
    data: Any = TwoSessions()
    write_static([exported("a", "b", "e"), exported("b", "d", "a")], tmp_path)
    model: Any = Given()
    result = measure_static(tmp_path, model, data)
    assert (result.sessions, result.contexts) == (2, 3)
    assert result.answered == pytest.approx(2 / 3, abs=1e-4)
    assert result.model_answered == 1.0
    assert result.first_agrees == 0.5, "b = b after a; d is not c after a b"
    assert result.overlap == 0.5, "b of b, c; d of c, d, since a is in the session"
    assert result.hits == pytest.approx(1 / 3, abs=1e-4)
    assert result.model_hits == 1.0
    assert result.visit_bytes_95 <= max(result.visit_bytes * 2, 200)


def test_only_static_lists_are_measured(model: Suggester, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`measure` is for static lists, not for json"):
        export_model(model, "json", tmp_path / "out", measure=tmp_path)

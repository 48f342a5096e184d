import gzip
import json
from pathlib import Path

import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError
from nextquery.export.engines import (
    ExportSettings,
    NextQuery,
    exported_queries,
    frequent_queries,
)
from nextquery.export.export import LIST_TARGETS, export_model
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
    with pytest.raises(InputError, match="`to` solr"):
        export_model(model, "solr", tmp_path / "out")
    for name in ("queries", "next_queries"):
        with pytest.raises(InputError, match=f"`{name}` 0: must be at least 1"):
            ExportSettings(**{name: 0})

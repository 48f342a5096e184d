import json
from pathlib import Path

from nextquery.export.exported import ExportedQuery
from nextquery.export.static import shard_of, static_suggestions, write_static
from nextquery.records import Suggestion

QUERIES = [
    *[
        ExportedQuery(
            f"query {n}",
            10,
            (Suggestion("next", -1.0, ""), Suggestion(f"query {n + 1}", -2.0, "")),
        )
        for n in range(50)
    ],
    ExportedQuery("end", 1, ()),
]


def test_every_list_is_found_again(tmp_path: Path) -> None:
    facts = write_static(QUERIES, tmp_path)
    assert facts.lists == 50
    for n in range(50):
        assert static_suggestions(tmp_path, [f"query {n}"]) == ["next", f"query {n + 1}"]
    assert json.loads((tmp_path / "index.json").read_text())["lists"] == 50


def test_nothing_is_suggested_that_the_session_has(tmp_path: Path) -> None:
    write_static(QUERIES, tmp_path)
    assert static_suggestions(tmp_path, ["query 4", "query 3"]) == ["next"]


def test_an_unknown_query_has_no_list(tmp_path: Path) -> None:
    write_static(QUERIES, tmp_path)
    assert static_suggestions(tmp_path, ["never typed"]) == []
    assert static_suggestions(tmp_path, ["end"]) == []
    assert static_suggestions(tmp_path, []) == []


def test_the_shard_is_the_beginning_of_the_hash() -> None:
    assert len(shard_of("paris")) == 2
    assert {len(shard_of(f"{n}")) for n in range(100)} == {2}

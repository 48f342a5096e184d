"""`prepare --from`: fetched, prepared, and nothing left but the data folder."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.sources.fetching import check_source, fetched_logs

from .opensearch_stub import Document, Stub, serving


def logged() -> dict[str, list[tuple[str, Document]]]:
    queries, events = [], []
    for number in range(40):
        time = f"2025-02-{number // 2 + 1:02}T10:{number % 2:02}:00+00:00"
        source = {"query_id": f"q{number}", "client_id": f"u{number // 2}", "timestamp": time}
        queries.append((f"a{number}", source | {"user_query": ("red", "red shoes")[number % 2]}))
        clicked = {"object": {"object_id": "x"}}
        event = {"query_id": f"q{number}", "action_name": "click", "event_attributes": clicked}
        events.append((f"b{number}", event | {"timestamp": time}))
    return {"ubi_queries": queries, "ubi_events": events}


def test_ubi_from_opensearch_to_a_data_folder(tmp_path: Path) -> None:
    with serving(Stub(logged(), page=7)) as stub:
        arguments = ["prepare", "--from", "opensearch", stub.address, "--json"]
        arguments += ["--index", "ubi_queries,ubi_events", "--out", str(tmp_path / "data")]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["settings"]["format"] == "ubi"
    assert found["counts"]["rows_accepted"] == 80
    counts = PreparedData(tmp_path / "data").counts("clicks").collect()
    assert counts["url"].to_list() == ["x", "x"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_was_fetched_stays_until_it_is_prepared(tmp_path: Path) -> None:
    out = tmp_path / "data"
    with serving(Stub(logged())) as stub:
        indices = ["ubi_queries"]
        with (
            pytest.raises(KeyError),
            fetched_logs("opensearch", [stub.address], indices, out, lambda *_: None) as files,
        ):
            assert len(files) == 14
            raise KeyError
        folder = tmp_path / "data.fetched"
        assert folder.stat().st_mode & 0o777 == 0o700
        with fetched_logs("opensearch", [stub.address], indices, out, lambda *_: None) as again:
            assert again == files
    assert not folder.exists()


@pytest.mark.parametrize(
    ("source", "logs", "indices", "message"),
    [
        ("kafka", ["a"], [], "`source` kafka: not one of files, opensearch, ir_datasets"),
        ("opensearch", ["a", "b"], ["c"], "give one address or name, not 2"),
        ("opensearch", ["a"], [], "`index`: opensearch needs it"),
        ("files", ["a", "b"], ["c"], "`index` goes with opensearch, not with files"),
    ],
)
def test_what_does_not_go_together(
    source: str, logs: list[str], indices: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_source(source, logs, indices)

"""`prepare --from`: fetched, prepared, and nothing left but the data folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError, LogError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.sources import check_source, fetched_logs

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


def test_what_is_left_of_another_source_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "data"
    left = tmp_path / "data.fetched"

    def begin(source: str, name: str, indices: list[str]) -> None:
        with fetched_logs(source, [name], indices, out, lambda *_: None):
            raise KeyError

    with serving(Stub(logged())) as stub:
        with pytest.raises(KeyError):
            begin("opensearch", stub.address, ["ubi_queries"])
        with pytest.raises(InputError, match=f"fetched from {stub.address}; remove it first"):
            begin("ir_datasets", "aol-ia", [])
    shutil.rmtree(left)
    with pytest.raises(LogError, match="no-such-set"):
        begin("ir_datasets", "no-such-set", [])
    (left / "log.tsv").write_text("the log of no-such-set")
    with pytest.raises(KeyError):
        begin("ir_datasets", "no-such-set", [])  # it is there already
    with pytest.raises(InputError, match="fetched from no-such-set; remove it first"):
        begin("ir_datasets", "aol-ia", [])
    (left / "source.json").unlink()
    with pytest.raises(InputError, match="does not say what it was fetched from"):
        begin("ir_datasets", "aol-ia", [])


HOLDS_THE_FOLDER = """
import sys, time
from pathlib import Path
from nextquery.logs.sources import fetched_logs
with fetched_logs("ir_datasets", ["a-set"], [], Path(sys.argv[1]), lambda *_: None):
    print("fetched", flush=True)
    time.sleep(60)
"""


def test_two_jobs_with_one_out_do_not_share_what_they_fetch(tmp_path: Path) -> None:
    out, left = tmp_path / "data", tmp_path / "data.fetched"
    left.mkdir()
    (left / "source.json").write_text('{"source": "ir_datasets", "name": "a-set"}')
    (left / "log.tsv").write_text("the log of a-set")
    command = [sys.executable, "-c", HOLDS_THE_FOLDER, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "fetched\n"
        with (
            pytest.raises(InputError, match=r"data\.fetched: another job is fetching into it"),
            fetched_logs("ir_datasets", ["a-set"], [], out, lambda *_: None),
        ):
            pass
        job.kill()
    with fetched_logs("ir_datasets", ["a-set"], [], out, lambda *_: None) as files:
        assert files == [left / "log.tsv"]
    assert not left.exists()


def test_a_password_in_an_address_is_not_written_down(tmp_path: Path) -> None:
    address = "https://somebody:secret@localhost:1"
    with (
        pytest.raises(InputError, match="do not belong into an address"),
        fetched_logs("opensearch", [address], ["a"], tmp_path / "data", lambda *_: None),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


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

"""`prepare --from`: OpenSearch and ir_datasets, fetched once and completely."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import ir_datasets
import pytest
from ir_datasets.datasets.aol_ia import AolQlog, LogItem
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import BaseQlogs
from tests.unit.logs.opensearch_stub import Document, Stub, serving
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError, LogError, MissingDependencyError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.settings import ReadSettings
from nextquery.logs.sources import (
    check_address,
    check_source,
    fetch_dataset,
    fetch_indices,
    fetched_logs,
)


def query(number: int, minute: int | None) -> tuple[str, Document]:
    source = {"query_id": f"q{number}", "client_id": "u", "user_query": f"red {number}"}
    time = {} if minute is None else {"timestamp": f"2025-02-18T10:{minute:02}:00+00:00"}
    return f"id-{number}", source | time


# Many share a minute, across the ends of pages; two have no time at all.
MINUTES = [0, 0, 1, 1, 1, 1, 1, 2, 3, 3, 4, None, None]
QUERIES = [query(number, minute) for number, minute in enumerate(MINUTES)]


def quiet(stage: str, share: float) -> None:
    assert stage == "fetching"
    assert 0 < share <= 1


def ids(files: list[Path]) -> list[str]:
    return [json.loads(line)["_id"] for file in files for line in file.read_text().splitlines()]


EVERY = [name for name, _ in QUERIES]


def test_all_documents_in_the_order_of_their_times(tmp_path: Path) -> None:
    shuffled = QUERIES[5:] + QUERIES[:5]
    with serving(Stub({"ubi_queries": shuffled, "ubi_events": QUERIES[:2]})) as stub:
        files = fetch_indices(stub.address, ["ubi_queries", "ubi_events"], tmp_path, quiet)
        assert not any(stub.open.values()), "every scroll is cleared"
    result = ids(files)
    assert sorted(result[: len(EVERY)]) == sorted(EVERY)
    assert result[:2] == ["id-0", "id-1"]
    assert set(result[len(EVERY) - 2 : len(EVERY)]) == {"id-11", "id-12"}
    assert result[len(EVERY) :] == ["id-0", "id-1"]


@pytest.mark.parametrize("pages", range(1, 6))
def test_a_lost_connection_loses_and_repeats_nothing(tmp_path: Path, pages: int) -> None:
    with serving(Stub({"ubi_queries": QUERIES}, fails_after=pages)) as stub:
        files = fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
    assert ids(files) == EVERY


class CutOffError(Exception):
    pass


@pytest.mark.parametrize("pages", range(1, 6))
def test_an_interrupted_job_continues(tmp_path: Path, pages: int) -> None:
    """The second run is asked only for what comes from the last time on."""
    heard = 0

    def cut(stage: str, share: float) -> None:
        nonlocal heard
        heard += 1
        if heard == pages:
            raise CutOffError

    with serving(Stub({"ubi_queries": QUERIES})) as stub:
        with pytest.raises(CutOffError):
            fetch_indices(stub.address, ["ubi_queries"], tmp_path, cut)
        stub.pages = 0
        files = fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
        assert ids(files) == EVERY
        assert stub.pages <= 7 - pages + 1
        stub.pages = 0
        assert fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet) == files
        assert stub.pages == 0, "what is done is not asked again"


def test_a_page_that_some_shards_missed_is_not_taken(tmp_path: Path) -> None:
    with (
        serving(Stub({"ubi_queries": QUERIES}, failed_shards=1)) as stub,
        pytest.raises(LogError, match=r"1 of 2 shards failed\); 0 documents are kept"),
    ):
        fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    with serving(Stub({"ubi_queries": []})) as stub:
        with pytest.raises(LogError, match=r"nowhere could not be read .*index_not_found"):
            fetch_indices(stub.address, ["nowhere"], tmp_path, quiet)
        with pytest.raises(LogError, match="ubi_queries hold no documents"):
            fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
        with pytest.raises(InputError, match=r"`index` \.\./x: no name of an index"):
            fetch_indices(stub.address, ["../x"], tmp_path, quiet)
        with pytest.raises(InputError, match="holds what was fetched from"):
            fetch_indices(f"{stub.address}/", ["ubi_queries"], tmp_path, quiet)
    with pytest.raises(LogError, match="0 documents are kept, and the same command continues"):
        fetch_indices(stub.address, ["other"], tmp_path, quiet)


def test_credentials_come_from_the_environment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXTQUERY_OPENSEARCH_USERNAME", "reader")
    with serving(Stub({"ubi_queries": QUERIES}, password="secret")) as stub:
        with pytest.raises(InputError, match="set both NEXTQUERY_OPENSEARCH_USERNAME and"):
            fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
        monkeypatch.setenv("NEXTQUERY_OPENSEARCH_PASSWORD", "wrong")
        with pytest.raises(LogError, match="401") as refused:
            fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
        assert "wrong" not in str(refused.value)
        monkeypatch.setenv("NEXTQUERY_OPENSEARCH_PASSWORD", "secret")
        assert ids(fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)) == EVERY
        assert not [file for file in tmp_path.iterdir() if "secret" in file.read_text()]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("host:9200", "give an address such as https"),
        ("ftp://host", "give an address such as https"),
        ("https://me:secret@host:9200", "https://host:9200: name and password do not belong"),
        ("http://host:9200", "would send the password in clear; use https"),
    ],
)
def test_addresses_that_are_refused(
    address: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXTQUERY_OPENSEARCH_PASSWORD", "secret")
    with pytest.raises(InputError, match=message) as refused:
        check_address(address)
    assert "secret" not in str(refused.value)


HIT = {"_id": "a", "_index": "ubi", "sort": [1], "_source": {"user_query": "red"}}


def answer(hits: Any, total: Any = 1, **fields: Any) -> dict[str, Any]:
    return {"_scroll_id": "s", "hits": {"total": {"value": total}, "hits": hits}, **fields}


LIES: dict[str, Any] = {
    "no JSON": b"<html>",
    "a list": [],
    "null": None,
    "a number": 5,
    "nothing": {},
    "no scroll": {"hits": {"total": {"value": 1}, "hits": [HIT]}},
    "hits are a text": answer("aaaa"),
    "hits are an object": answer({"a": 1}),
    "hits are numbers": answer([1, 2]),
    "no total": {"_scroll_id": "s", "hits": {"hits": [HIT]}},
    "total is a text": answer([HIT], "many"),
    "total is nothing": answer([HIT], None),
    "no id": answer([{"sort": [1]}]),
    "no sort": answer([{"_id": "a"}]),
    "sort is empty": answer([{"_id": "a", "sort": []}]),
    "sort is a text": answer([{"_id": "a", "sort": ["soon"]}]),
    "sort is endless": answer([{"_id": "a", "sort": [1e999]}]),
    "shards are a text": answer([HIT], _shards="all"),
    "the same page for ever": answer([HIT] * 5000),
    "deep": b"[" * 100_000,
}


@contextmanager
def lying(body: Any) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("lie", LIES)
def test_every_malformed_answer_is_one_error(tmp_path: Path, lie: str) -> None:
    with lying(LIES[lie]) as address, pytest.raises(LogError) as raised:
        fetch_indices(address, ["ubi"], tmp_path, lambda stage, share: None)
    assert str(raised.value).isprintable()
    assert address in str(raised.value)


@pytest.mark.parametrize("note", ["", "null", "[]", '{"ids": 5}', '{"ids": [], "x": 1}', "{"])
def test_a_damaged_note_is_named(tmp_path: Path, note: str) -> None:
    (tmp_path / "ubi.json").write_text(note)
    with pytest.raises(InputError, match=r"ubi\.json: cannot be read"):
        fetch_indices("http://127.0.0.1:1", ["ubi"], tmp_path, lambda stage, share: None)


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
    results: dict[str, Any] = json.loads(result.stdout)
    assert results["settings"]["format"] == "ubi"
    assert results["counts"]["rows_accepted"] == 80
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


MOMENT = datetime(2006, 3, 1, 7, 17, 12)
LOGS = [
    AolQlog("7", "a", "red shoes", "Red\tShoes", MOMENT, ()),
    AolQlog(
        "7",
        "b",
        "red boots",
        "red boots",
        MOMENT,
        (LogItem("d1", 1, True), LogItem("d2", 2, False)),
    ),
]


class _Logs(BaseQlogs):  # type: ignore[misc]
    def qlogs_iter(self) -> Iterator[AolQlog]:
        return iter(LOGS)

    def qlogs_cls(self) -> Any:
        return AolQlog

    def qlogs_count(self) -> int:
        return len(LOGS)


@pytest.fixture(scope="module")
def name() -> str:
    ir_datasets.registry.register("nextquery-test-log", Dataset(_Logs()))
    return "nextquery-test-log"


def _no_progress(stage: str, share: float) -> None:
    assert stage == "fetching"


def test_its_rows_are_those_of_an_aol_file(name: str, tmp_path: Path) -> None:
    (file,) = fetch_dataset(name, tmp_path, _no_progress)
    assert file.read_text().splitlines()[1:] == [
        "7\tRed Shoes\t2006-03-01 07:17:12\t\t",
        "7\tred boots\t2006-03-01 07:17:12\t1\td1",
    ]
    assert read_logs([file], ReadSettings(), tmp_path / "work").format == "aol"
    assert fetch_dataset(name, tmp_path, _no_progress) == [file], "it is there already"


def test_a_dataset_without_a_query_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no-such-set: ir_datasets cannot load it"):
        fetch_dataset("no-such-set", tmp_path, _no_progress)
    with pytest.raises(LogError, match="vaswani: has no query log; aol-ia has one"):
        fetch_dataset("vaswani", tmp_path, _no_progress)


def test_without_the_library_its_name_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(MissingDependencyError, match="pip install ir_datasets"):
        fetch_dataset("aol-ia", tmp_path, _no_progress)

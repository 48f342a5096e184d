"""UBI in Parquet, and days of it in a folder, in every shape that data lakes give it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nextquery.logs.formats.ubi import column_names, parse_ubi, read_fields
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import find_files
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.settings import ReadSettings


def query(query_id: str | None, text: str, minute: int = 0, user: str = "u") -> dict[str, Any]:
    time = f"2025-02-18T10:{minute:02}:00Z"
    return {"query_id": query_id, "client_id": user, "user_query": text, "timestamp": time}


def click(query_id: str | None, item: Any, action: str = "click") -> dict[str, Any]:
    attributes = {"object": {"object_id": item}, "position": {"ordinal": 1}}
    time = "2025-02-18T11:00:00Z"
    event = {"action_name": action, "timestamp": time, "event_attributes": attributes}
    return event if query_id is None else event | {"query_id": query_id}


def read(tmp_path: Path, **files: list[dict[str, Any]]) -> tuple[ReadResult, pl.DataFrame]:
    paths = []
    for name, objects in files.items():
        paths.append(tmp_path / f"{name}.ndjson")
        paths[-1].write_text("".join(json.dumps(each) + "\n" for each in objects))
    work = tmp_path / "work"
    result = read_logs(paths, ReadSettings(), work)
    names = sorted(path.name for path in work.iterdir())
    assert names == ["rejected.ndjson.gz", "rejected_owners.parquet", "rows"]
    return result, pl.read_parquet(work / "rows").sort("row")


QUERIES = [query("a", "red shoes"), query("b", "blue shoes", 1)]
EVENTS = [click("b", 17), click("a", "x"), click("a", "y", "click_through")]


@pytest.mark.parametrize("order", ["queries first", "events first", "one file"])
def test_clicks_follow_their_query(tmp_path: Path, order: str) -> None:
    files = {"queries": QUERIES, "events": EVENTS}
    if order == "events first":
        files = dict(reversed(files.items()))
    if order == "one file":
        files = {"all": EVENTS[:1] + QUERIES + EVENTS[1:]}
    result, rows = read(tmp_path, **files)
    assert result.format == "ubi"
    assert (result.rows_read, result.rows_accepted, result.rows_rejected) == (5, 5, 0)
    ten = datetime(2025, 2, 18, 10)
    assert rows.select("user", "time", "query", "click").rows() == [
        ("u", ten, "red shoes", None),
        ("u", ten, "red shoes", "x"),
        ("u", ten, "red shoes", "y"),
        ("u", ten.replace(minute=1), "blue shoes", None),
        ("u", ten.replace(minute=1), "blue shoes", "17"),
    ]
    assert rows["row"].is_unique().all()


def test_every_line_is_accounted_for(tmp_path: Path) -> None:
    others = [
        click("nowhere", "x"),
        click(None, "x"),
        click("a", "x", "add_to_cart"),
        click("a", None),
        query("c", "", 2),
    ]
    result, rows = read(tmp_path, queries=QUERIES * 20, events=EVENTS + others)
    assert result.rows_read == 48
    assert result.rows_accepted == len(rows) == 43
    assert result.reasons == {
        rejects.UNKNOWN_QUERY: 1,
        rejects.NO_QUERY_ID: 1,
        rejects.NOT_A_CLICK: 1,
        rejects.NO_OBJECT: 1,
        rejects.EMPTY_QUERY: 1,
    }


def test_click_on_a_repeated_query_counts_once(tmp_path: Path) -> None:
    _, rows = read(tmp_path, queries=[*QUERIES, query("a", "red shoes", 5)], events=[click("a", 1)])
    assert rows["click"].to_list() == [None, "1", None, None]


def test_query_without_an_id_is_still_a_query(tmp_path: Path) -> None:
    _, rows = read(tmp_path, queries=[query(None, "red"), *QUERIES], events=EVENTS)
    assert rows["query"].to_list()[0] == "red"
    assert len(rows) == 6


def test_lines_are_told_as_queries_or_events() -> None:
    texts = [
        json.dumps(QUERIES[0]),
        "{",
        json.dumps(click("a", 1)),
        json.dumps({"user_query": "x"}),
    ]
    parsed = parse_ubi(pl.DataFrame({"line": range(1, 5), "text": texts}), "UTC")
    assert parsed.accepted.select("line", "query_id", "click").rows() == [
        (1, "a", None),
        (3, "a", "1"),
    ]
    assert parsed.rejected.select("line", "reason").rows() == [
        (2, rejects.NOT_JSON),
        (4, rejects.NO_USER),
    ]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_the_named_encoding_is_used(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "log.ndjson"
    lines = [json.dumps(each, ensure_ascii=False) for each in (query("a", "caf\u00e9"), EVENTS[1])]
    log.write_bytes("\n".join(lines).encode(encoding))
    read_logs([log], ReadSettings(encoding=encoding), tmp_path / "work")
    rows = pl.read_parquet(tmp_path / "work" / "rows").sort("row")
    assert rows["query"].to_list() == ["caf\u00e9", "caf\u00e9"]


TEN = datetime(2025, 2, 18, 10, tzinfo=UTC)
QUERY_COLUMNS = {
    "query_id": ["a", "b"],
    "client_id": ["u", "u"],
    "user_query": ["red shoes", "blue shoes"],
    "timestamp": [TEN, TEN.replace(minute=1)],
    "query_response_hit_ids": [["1", "2"], ["3"]],
}
EVENT_COLUMNS = {
    "action_name": ["item_click", "add_to_cart", "click"],
    "query_id": ["b", "b", "a"],
    "client_id": ["u", "u", "u"],
    "timestamp": ["2025-02-18T10:02:00Z"] * 3,
}
CLICKED: list[dict[str, Any]] = [
    {"object": {"object_id": "x17"}},
    {"object": {"object_id": "x18"}},
    {"object": {"object_id": "x19"}},
]
EXPECTED = [
    ("u", "red shoes", None),
    ("u", "red shoes", "x19"),
    ("u", "blue shoes", None),
    ("u", "blue shoes", "x17"),
]


def read_files(*paths: Path, work: Path) -> tuple[ReadResult, pl.DataFrame]:
    result = read_logs(find_files(paths), ReadSettings(), work)
    return result, pl.read_parquet(work / "rows").sort("row")


def as_columns(shape: str) -> dict[str, Any]:
    if shape == "nested":
        return {"event_attributes": CLICKED}
    if shape == "json":
        return {"event_attributes": [json.dumps(each) for each in CLICKED]}
    return {"event_attributes.object.object_id": [each["object"]["object_id"] for each in CLICKED]}


@pytest.mark.parametrize("shape", ["nested", "json", "dotted"])
def test_clicks_are_found_in_every_shape(tmp_path: Path, shape: str) -> None:
    pq.write_table(pa.table(QUERY_COLUMNS), tmp_path / "queries.parquet")
    pq.write_table(pa.table(EVENT_COLUMNS | as_columns(shape)), tmp_path / "events.parquet")
    result, rows = read_files(
        tmp_path / "queries.parquet", tmp_path / "events.parquet", work=tmp_path / "work"
    )
    assert result.format == "ubi"
    assert result.reason == "it is a Parquet file with user_query and client_id"
    assert rows.select("user", "query", "click").rows() == EXPECTED
    assert rows["time"][0] == TEN.replace(tzinfo=None)
    assert result.reasons == {rejects.NOT_A_CLICK: 1}


def test_a_folder_of_days_of_both_kinds(tmp_path: Path) -> None:
    """Daily files of queries in Parquet, events in NDJSON: one log."""
    days = tmp_path / "ubi"
    (days / "queries").mkdir(parents=True)
    (days / "events").mkdir()
    table = pa.table(QUERY_COLUMNS)
    for number in range(2):
        pq.write_table(table.slice(number, 1), days / "queries" / f"2025-02-{18 + number}.parquet")
    events = [
        {name: values[number] for name, values in EVENT_COLUMNS.items()}
        | {"event_attributes": CLICKED[number]}
        for number in range(3)
    ]
    (days / "events" / "2025-02-18.ndjson").write_text(
        "".join(json.dumps(each) + "\n" for each in events)
    )
    result, rows = read_files(days, work=tmp_path / "work")
    assert (result.rows_read, result.rows_accepted) == (5, 4)
    assert rows.select("user", "query", "click").rows() == EXPECTED


def test_rows_without_user_or_with_odd_text_are_rejected(tmp_path: Path) -> None:
    table = {
        "client_id": ["u", None, "u"],
        "user_query": [b"red", b"blue", b"gr\xff"],
        "timestamp": [TEN] * 3,
    }
    pq.write_table(pa.table(table), tmp_path / "queries.parquet")
    result, rows = read_with_half_bad(tmp_path / "queries.parquet", tmp_path / "work")
    assert rows["query"].to_list() == ["red"]
    assert result.reasons == {rejects.MALFORMED_TEXT: 1, rejects.NO_USER: 1}


def read_with_half_bad(path: Path, work: Path) -> tuple[ReadResult, pl.DataFrame]:
    result = read_logs([path], ReadSettings("ubi", max_rejected=1.0), work)
    return result, pl.read_parquet(work / "rows")


def test_names_of_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"PAR1 and nothing more")
    assert column_names(tmp_path / "log") == set()


def test_columns_of_lists_are_no_fields(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user_query": [["red"]], "client_id": ["u"]}), tmp_path / "log")
    ((share, fields),) = read_fields(tmp_path / "log", {"query": "user_query", "user": "client_id"})
    assert share == 1
    assert fields.select("query", "user").rows() == [(None, "u")]

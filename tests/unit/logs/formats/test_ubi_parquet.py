"""UBI in Parquet, and days of it in a folder, in every shape that data lakes give it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nextquery.logs.formats.ubi import column_names, read_fields
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import find_files
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.settings import ReadSettings

TEN = datetime(2025, 2, 18, 10, tzinfo=UTC)
QUERIES = {
    "query_id": ["a", "b"],
    "client_id": ["u", "u"],
    "user_query": ["red shoes", "blue shoes"],
    "timestamp": [TEN, TEN.replace(minute=1)],
    "query_response_hit_ids": [["1", "2"], ["3"]],
}
EVENTS = {
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


def read(*paths: Path, work: Path) -> tuple[ReadResult, pl.DataFrame]:
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
    pq.write_table(pa.table(QUERIES), tmp_path / "queries.parquet")
    pq.write_table(pa.table(EVENTS | as_columns(shape)), tmp_path / "events.parquet")
    result, rows = read(
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
    table = pa.table(QUERIES)
    for number in range(2):
        pq.write_table(table.slice(number, 1), days / "queries" / f"2025-02-{18 + number}.parquet")
    events = [
        {name: values[number] for name, values in EVENTS.items()}
        | {"event_attributes": CLICKED[number]}
        for number in range(3)
    ]
    (days / "events" / "2025-02-18.ndjson").write_text(
        "".join(json.dumps(each) + "\n" for each in events)
    )
    result, rows = read(days, work=tmp_path / "work")
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

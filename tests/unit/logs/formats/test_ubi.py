import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.logs.formats.ubi import parse_ubi
from nextquery.logs.reading import rejects
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

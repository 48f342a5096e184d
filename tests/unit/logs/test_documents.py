"""Logs as documents and tables: JSON, UBI, Parquet and Excel."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import LogError
from nextquery.logs.formats import json as json_format
from nextquery.logs.formats.json import (
    JsonLayout,
    extract_fields,
    read_objects,
    sample_document,
    sample_objects,
    sample_paths,
)
from nextquery.logs.formats.ubi import read_fields
from nextquery.logs.reading import encodings, rejects
from nextquery.logs.reading.open import LogFile, Sample, find_files
from nextquery.logs.reading.read_logs import ReadResult

from .conftest import parse_texts, read_rows


def sample(*lines: str) -> Sample:
    return Sample(Path("log"), lines)


def test_objects_count_only_if_most_lines_are_objects() -> None:
    assert sample_objects(sample('{"a": 1}', "[1]", '{"b": 2}')) == [{"a": 1}, {"b": 2}]
    assert sample_objects(sample('{"a": 1}', "red")) == []
    assert sample_objects(sample('{"_source": {"a": 1}}')) == [{"a": 1}]


@pytest.mark.parametrize(
    ("path", "objects", "values"),
    [
        (
            "a.b",
            [{"a": {"b": "x"}}, {"a.b": "y"}, {"_source": {"a": {"b": 3}}}, {}],
            ["x", "y", "3", None],
        ),
        ("a|b", [{"a": "x", "b": "y"}, {"b": "y"}, {"a": None, "b": "z"}], ["x", "y", "z"]),
        ("a", [{"a": {"b": 1}}, {"a": [1]}, {"a": None}, {"a": True}], [None, None, None, "true"]),
    ],
    ids=["nested or a key with dots", "paths in turn", "only scalars"],
)
def test_a_path_leads_to_a_value(
    path: str, objects: list[dict[str, Any]], values: list[str | None]
) -> None:
    texts = [json.dumps(item) for item in objects]
    lines = pl.DataFrame({"text": texts}).with_columns(reason=pl.lit(None, pl.String))
    assert extract_fields(lines, {"value": path})["value"].to_list() == values


@pytest.mark.parametrize(
    "line", ['{"_source": "x"}', '{"_source": 1}', '{"_source": null, "a": 1}']
)
def test_a_source_that_is_not_an_object_is_a_field(line: str) -> None:
    assert "_source" in sample_paths(sample(line))


PLAIN = JsonLayout(user="who", time="at", query="search.text", click="clicked")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = st.sampled_from(["a", "b", "c", "b.a", "_source"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["who", "at", "search", "text", "clicked", "_source"]), inner
        )
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(VALUES.map(json.dumps) | st.text(max_size=10), max_size=8))
def test_every_line_is_accepted_or_rejected_once(texts: list[str]) -> None:
    parsed = parse_texts(PLAIN, *[text.replace("\n", "") for text in texts])
    numbers = parsed.accepted["line"].to_list() + parsed.rejected["line"].to_list()
    assert sorted(numbers) == list(range(1, len(texts) + 1))
    assert parsed.rejected["reason"].null_count() == 0


OBJECTS: list[dict[str, Any]] = [{"a": n, "text": "é]},{" * n, "in": {"b": [1]}} for n in range(9)]
DOCUMENTS = {
    "a list": json.dumps(OBJECTS),
    "under a name": json.dumps({"logs": OBJECTS}),
    "pages": json.dumps({"logs": OBJECTS[:4]}) + "\n" + json.dumps({"logs": OBJECTS[4:]}),
    "after another field": json.dumps({"page": 1, "logs": OBJECTS}),
    "lines": "".join(json.dumps(item) + "\n" for item in OBJECTS),
    "marked": "\ufeff" + json.dumps(OBJECTS, indent=1),
}


def objects(path: Path, list_name: str) -> list[dict[str, Any]]:
    with LogFile(path) as file:
        return [result for _, result in read_objects(file, list_name)]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("shape", DOCUMENTS)
def test_every_object_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, chunk: int
) -> None:
    monkeypatch.setattr(json_format, "_CHUNK", chunk)
    path = tmp_path / "log.json"
    path.write_text(DOCUMENTS[shape])
    assert objects(path, "logs") == OBJECTS


@pytest.mark.parametrize(
    "text",
    [
        *('[{"a": 1}, {"a": ', "[{'a': 1}]", '[{"a": 1} x', '{"a": ' * 5000),
        # Cut between two objects, or before the end of the list or of what it is in.
        *('[{"a": 1}, {"a": 2},', '[{"a": 1}', '[{"a": 1}]\n[{"a": 2}', '[{"a": 1}]]'),
        *('{"logs": [{"a": 1}, ', '{"logs": [{"a": 1}]', '{"logs": [{"a": 1}]}\n{"logs": ['),
    ],
)
def test_a_damaged_document_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)
    with pytest.raises(LogError, match=r"log.json: is not JSON.* cut off, after \d objects"):
        objects(path, "logs")


def test_an_object_without_end_takes_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encodings, "LARGEST_OBJECT", 1000)
    monkeypatch.setattr(json_format, "_CHUNK", 500)
    path = tmp_path / "log.json"
    path.write_text('[{"a": "' + "x" * 100_000 + '"}]')
    with pytest.raises(LogError, match="after 0 objects"):
        objects(path, "")


def test_the_start_of_a_document() -> None:
    lines = tuple(json.dumps({"logs": OBJECTS}, indent=1).split("\n"))
    assert sample_document(Sample(Path("x"), lines[:20]), "logs") == OBJECTS[:2]
    assert sample_document(Sample(Path("x"), ("a,b",)), "logs") == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
JSON_LINES = st.builds(json.dumps, st.dictionaries(KEYS, VALUES), ensure_ascii=st.booleans())
BAD_LINES = st.sampled_from(
    ["x", "[1]", "null", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}', "{"]
)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(JSON_LINES | BAD_LINES, max_size=12))
def test_lines_have_the_same_fields_together_and_one_by_one(lines: list[str]) -> None:
    texts = pl.DataFrame({"text": lines}, {"text": pl.String}).with_columns(
        reason=pl.lit(None, pl.String)
    )
    paths = {"first": "a", "inner": "b.a", "other": "c|b.c"}
    together = extract_fields(texts, paths)
    one_by_one = [extract_fields(texts[number : number + 1], paths) for number in range(len(lines))]
    assert together.rows() == [row for frame in one_by_one for row in frame.rows()]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_very_deep_nesting_is_rejected_not_a_crash(opening: str) -> None:
    deep = '{"user": "u", "more": ' + opening * 100_000
    lines = pl.DataFrame({"text": [deep, '{"user": "v"}'], "reason": [None, None]})
    fields = extract_fields(lines.cast({"reason": pl.String}), {"user": "user"})
    assert fields.select("user", "reason").rows() == [(None, rejects.NOT_JSON), ("v", None)]


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
        paths[-1].write_text("".join(json.dumps(item) + "\n" for item in objects))
    work = tmp_path / "work"
    result, rows = read_rows(paths, work)
    names = sorted(path.name for path in work.iterdir())
    assert names == ["rejected.ndjson.gz", "rejected_owners.parquet", "rows"]
    return result, rows


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
    rest = [
        click("nowhere", "x"),
        click(None, "x"),
        click("a", "x", "add_to_cart"),
        click("a", None),
        query("c", "", 2),
    ]
    result, rows = read(tmp_path, queries=QUERIES * 20, events=EVENTS + rest)
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


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_the_named_encoding_is_used(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "log.ndjson"
    lines = [json.dumps(item, ensure_ascii=False) for item in (query("a", "caf\u00e9"), EVENTS[1])]
    log.write_bytes("\n".join(lines).encode(encoding))
    _, rows = read_rows([log], tmp_path / "work", encoding=encoding)
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
CLICKED: list[dict[str, Any]] = [{"object": {"object_id": item}} for item in ("x17", "x18", "x19")]
EXPECTED = [
    ("u", "red shoes", None),
    ("u", "red shoes", "x19"),
    ("u", "blue shoes", None),
    ("u", "blue shoes", "x17"),
]


def as_columns(shape: str) -> dict[str, Any]:
    if shape == "nested":
        return {"event_attributes": CLICKED}
    if shape == "json":
        return {"event_attributes": [json.dumps(item) for item in CLICKED]}
    return {"event_attributes.object.object_id": [item["object"]["object_id"] for item in CLICKED]}


@pytest.mark.parametrize("shape", ["nested", "json", "dotted"])
def test_clicks_are_found_in_every_shape(tmp_path: Path, shape: str) -> None:
    pq.write_table(pa.table(QUERY_COLUMNS), tmp_path / "queries.parquet")
    pq.write_table(pa.table(EVENT_COLUMNS | as_columns(shape)), tmp_path / "events.parquet")
    files = [tmp_path / "queries.parquet", tmp_path / "events.parquet"]
    result, rows = read_rows(files, tmp_path / "work")
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
        "".join(json.dumps(item) + "\n" for item in events)
    )
    result, rows = read_rows(find_files([days]), tmp_path / "work")
    assert (result.rows_read, result.rows_accepted) == (5, 4)
    assert rows.select("user", "query", "click").rows() == EXPECTED


def test_columns_of_lists_are_not_fields(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user_query": [["red"]], "client_id": ["u"]}), tmp_path / "log")
    ((share, fields),) = read_fields(tmp_path / "log", {"query": "user_query", "user": "client_id"})
    assert share == 1
    assert fields.select("query", "user").rows() == [(None, "u")]

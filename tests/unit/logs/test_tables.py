"""Logs as binary tables: Parquet and Excel, whatever their types and however large they unpack."""

import contextlib
import io
import sys
import zipfile
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reliability.log_files import workbook

from nextquery.errors import LogError, MissingDependencyError
from nextquery.logs.formats import excel, parquet
from nextquery.logs.formats.parquet import parse_batch, read_batches, read_footer
from nextquery.logs.reading import rejects
from nextquery.logs.reading.read_logs import ReadResult
from nextquery.logs.reading.rows import ParsedRows

from .conftest import read_rows

MOMENT = datetime(2006, 3, 1, 7, 17, 12)


def parse(tmp_path: Path, table: dict[str, Any], time_zone: str = "UTC") -> list[ParsedRows]:
    path = tmp_path / "log.parquet"
    pl.DataFrame(table).write_parquet(path)
    return [parse_batch(batch, time_zone) for _, batch in read_batches(path, None)]


@pytest.mark.parametrize(
    "time",
    [
        MOMENT,
        MOMENT.replace(tzinfo=ZoneInfo("UTC")),
        datetime(2006, 3, 1, 8, 17, 12, tzinfo=ZoneInfo("Europe/Paris")),
        1141197432,
        1141197432000,
        1141197432.0,
        "2006-03-01T08:17:12+01:00",
        "2006-03-01 07:17:12",
    ],
)
def test_times_of_every_type(tmp_path: Path, time: Any) -> None:
    (parsed,) = parse(tmp_path, {"user": [7], "time": [time], "query": ["red"], "click": ["x"]})
    (row,) = parsed.accepted.rows(named=True)
    assert row == {"line": 1, "user": "7", "time": MOMENT, "query": "red", "click": "x"}


def test_naive_times_take_the_zone(tmp_path: Path) -> None:
    table: dict[str, Any] = {"user": ["a", "b"], "query": ["red", "red"]}
    table |= {"time": [datetime(2006, 3, 1, 2, 17, 12), datetime(2006, 4, 2, 2, 30)]}
    (parsed,) = parse(tmp_path, table, "America/New_York")
    assert parsed.accepted["time"].to_list() == [MOMENT]
    assert parsed.rejected["reason"].to_list() == ["time skipped by a clock change"]


def test_every_row_is_accepted_or_rejected_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_BATCH_ROWS", 2)
    table = {
        "query": [b"red", b"", None, b"r\xff", b"r\0d", b"blue"],
        "user": ["a", "a", "a", "a", "a", None],
        "time": [MOMENT] * 6,
    }
    parsed = parse(tmp_path, table)
    assert [line for part in parsed for line in part.accepted["line"]] == [1]
    assert [row[:2] for part in parsed for row in part.rejected.rows()] == [
        (2, rejects.EMPTY_QUERY),
        (3, rejects.EMPTY_QUERY),
        (4, rejects.MALFORMED_TEXT),
        (5, rejects.NUL_BYTE),
        (6, rejects.NO_USER),
    ]


def test_a_date_is_not_a_time(tmp_path: Path) -> None:
    (parsed,) = parse(tmp_path, {"user": ["a"], "time": [date(2006, 3, 1)], "query": ["red"]})
    assert parsed.rejected["reason"].to_list() == ["time not understood"]


def test_broken_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1 but nothing more")
    with pytest.raises(LogError, match=r"log\.parquet: cannot be read as Parquet"):
        list(read_batches(path, None))


def parse_table(tmp_path: Path, table: pa.Table) -> list[ParsedRows]:
    pq.write_table(table, tmp_path / "log.parquet", compression="zstd")
    batches = read_batches(tmp_path / "log.parquet", None)
    return [parse_batch(batch, "UTC") for _, batch in batches]


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("ms"),
        pa.timestamp("ns"),
        pa.timestamp("us", "+05:30"),
        pa.timestamp("ns", "Mars/Olympus"),
        pa.timestamp("ms", "posixrules"),
    ],
)
def test_times_of_any_unit_and_zone_are_read(tmp_path: Path, kind: pa.DataType) -> None:
    moment = pa.array([MOMENT, None], pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
    table = pa.table({"user": ["a", "b"], "time": moment, "query": ["red", "blue"]})
    (parsed,) = parse_table(tmp_path, table)
    assert parsed.accepted["time"].to_list() == [MOMENT]
    assert parsed.rejected["reason"].to_list() == [rejects.NO_TIME]


def test_times_beyond_all_years_are_out_of_range(tmp_path: Path) -> None:
    times = pa.array([2**62, -(2**62)]).cast(pa.timestamp("ms"))
    table = pa.table({"user": ["a", "b"], "time": times, "query": ["red", "blue"]})
    (parsed,) = parse_table(tmp_path, table)
    assert parsed.rejected["reason"].to_list() == ["time before 1990 or after 2099"] * 2


@pytest.mark.parametrize("column", ["time", "query"])
def test_a_duration_is_refused(tmp_path: Path, column: str) -> None:
    columns: dict[str, Any] = {"user": ["a"], "time": [MOMENT], "query": ["red"]}
    columns[column] = pa.array([timedelta(days=1)])
    with pytest.raises(LogError, match=rf"column '{column}' is a Duration\(.*\); {column} must be"):
        parse_table(tmp_path, pa.table(columns))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    columns = [pa.array(["a"])] * 4
    table = pa.Table.from_arrays(columns, names=["user", "time", "query", "user"])
    with pytest.raises(LogError, match="has several columns called 'user'"):
        parse_table(tmp_path, table)


def test_a_repeated_long_text_is_taken_out_a_block_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "BLOCK_BYTES", 1 << 20)
    count, length = 5000, 10_000  # 50 MB in a file of a kilobyte
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * count), pa.array(["x" * length]))
    table = pa.table({"user": ["a"] * count, "time": [MOMENT] * count, "query": texts})
    pq.write_table(table, tmp_path / "log.parquet", compression="zstd")
    assert (tmp_path / "log.parquet").stat().st_size < 4000
    batches = [batch for _, batch in read_batches(tmp_path / "log.parquet", None)]
    assert sum(map(len, batches)) == count
    assert max(batch["query"].str.len_bytes().sum() for batch in batches) <= (1 << 20) + length
    lines = [line for batch in batches for line in batch["line"]]
    assert lines == list(range(1, count + 1))


def test_a_text_longer_than_any_line_is_rejected(tmp_path: Path) -> None:
    table = pa.table({"user": ["a"], "time": [MOMENT], "query": ["x" * ((1 << 20) + 1)]})
    (parsed,) = parse_table(tmp_path, table)
    assert parsed.rejected["reason"].to_list() == [rejects.TOO_LONG]


def test_a_column_that_unpacks_to_thousands_of_times_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_LARGEST_CHUNK", 1 << 20)
    texts = [f"{number}" + "x" * 100_000 for number in range(100)]
    table = pa.table({"user": texts, "time": [MOMENT] * 100, "query": texts})
    with pytest.raises(LogError, match=r"'(user|query)' unpacks to .* bytes from .*; that is"):
        parse_table(tmp_path, table)


@given(
    content=st.binary(max_size=300), position=st.integers(0, 400), length=st.integers(0, 2**32 - 1)
)
def test_a_damaged_footer_is_an_error_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, position: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "log.parquet"
    pl.DataFrame({"user": ["a"], "nested": [{"x": 1, "y": {"z": "b"}}]}).write_parquet(path)
    assert read_footer(path).names == ["user", "nested"]
    whole = path.read_bytes()
    damaged = whole[: -position - 8] + content + whole[-position - 8 : -8]
    path.write_bytes(damaged + min(length, len(damaged)).to_bytes(4, "little") + b"PAR1")
    with contextlib.suppress(ValueError):
        read_footer(path)


CELL_TIME = datetime(2024, 3, 1, 10, 0, 5)
NOTES: list[list[object]] = [["Exported by", "Analytics"], ["on", CELL_TIME]]
ROWS: list[list[object]] = [
    ["Site search, March"],
    [],
    ["time", "user", "query", "click", "results"],
    [CELL_TIME, 17, "red shoes", None, 12],
    [CELL_TIME.replace(second=30), 17, "red <boots>", "https://shop.example/p/7", 3],
    ["2024-03-01 11:00:00", "x-18", 1984, None, 3],
    [CELL_TIME, None, "nobody", None, 1],
]


def read_workbook(
    tmp_path: Path, data: bytes, columns: dict[str, str] | None = None
) -> tuple[ReadResult, pl.DataFrame]:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    (folder / "log.xlsx").write_bytes(data)
    return read_rows([folder / "log.xlsx"], folder / "work", columns=columns, max_rejected=1.0)


def test_rows_of_the_sheet_that_has_the_columns(tmp_path: Path) -> None:
    result, rows = read_workbook(tmp_path, workbook(NOTES, ROWS))
    assert result.reason == "it starts with the mark of an Excel workbook"
    assert rows.select("user", "time", "query", "click").rows() == [
        ("17", CELL_TIME, "red shoes", None),
        ("17", CELL_TIME.replace(second=30), "red <boots>", "https://shop.example/p/7"),
        ("x-18", datetime(2024, 3, 1, 11), "1984", None),
    ]
    assert rows["row"].to_list() == [4, 5, 6], "the row as Excel numbers it"
    assert result.reasons == {rejects.NO_USER: 1}


def test_a_file_that_is_no_workbook_is_named(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("log.csv", "user,time,query")
    with pytest.raises(LogError, match="no Excel workbook; unpack it"):
        read_workbook(tmp_path, stream.getvalue())
    with pytest.raises(LogError, match="cannot be read as a workbook"):
        read_workbook(tmp_path, b"PK\x03\x04 and nothing more")
    with pytest.raises(LogError, match="cannot be read as a workbook"):
        read_workbook(tmp_path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(LogError, match="a workbook without rows"):
        read_workbook(tmp_path, workbook([]))


@pytest.mark.parametrize(
    ("corner", "cells"),
    [
        ("XFD40000", "655,360,000"),
        ("AB999999", "27,"),
        ("XFD1048576", "17,179,869,184 cells; save it as CSV"),
    ],
)
def test_a_single_cell_far_away_is_refused(tmp_path: Path, corner: str, cells: str) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook(ROWS))) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'r="A1"', f'r="{corner}"'.encode()))
    with pytest.raises(LogError, match=f"span {cells}"):
        read_workbook(tmp_path, stream.getvalue())


def test_blocks_are_bounded_in_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "_BLOCK_CHARACTERS", 40)
    long: Any = [["time", "user", "query"], *([CELL_TIME, "u", "x" * 30] for _ in range(5))]
    _, rows = read_workbook(tmp_path, workbook(long))
    assert rows["row"].to_list() == [2, 3, 4, 5, 6]
    assert len(list(tmp_path.rglob("part-*.parquet"))) == 5


def test_a_small_file_of_huge_sheets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excel, "_LARGEST", 100)
    with pytest.raises(LogError, match=r"unpacks to [\d,]+ bytes"):
        read_workbook(tmp_path, workbook(ROWS))


def test_column_names_below_a_title_are_in_the_error(tmp_path: Path) -> None:
    report: Any = [
        ["Site search, March"],
        [],
        ["Visitor ID", "Date", "Term"],
        ["u", CELL_TIME, "hats"],
    ]
    with pytest.raises(LogError, match=r"it has Visitor ID, Date, Term: .*user=Visitor ID,time="):
        read_workbook(tmp_path, workbook(report))
    columns = {"user": "Visitor ID", "time": "Date", "query": "Term"}
    _, rows = read_workbook(tmp_path, workbook(report), columns)
    assert rows["query"].to_list() == ["hats"]


def test_without_the_library_its_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nextquery\[excel\]'"):
        read_workbook(tmp_path, workbook(ROWS))


def test_a_header_in_capitals_is_found_below_a_title_and_on_a_later_sheet(tmp_path: Path) -> None:
    capitals = [[str(name).upper() for name in ROWS[2]] if row is ROWS[2] else row for row in ROWS]
    result, rows = read_workbook(tmp_path, workbook(NOTES, capitals))
    assert result.rows_accepted == 3
    assert rows["query"].to_list() == ["red shoes", "red <boots>", "1984"]

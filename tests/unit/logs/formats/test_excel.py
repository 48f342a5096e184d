"""Excel files: typed cells become rows, whatever stands above the header or on other sheets."""

import io
import sys
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.reliability.log_files import workbook

from nextquery.errors import LogError, MissingDependencyError
from nextquery.logs.formats import excel
from nextquery.logs.reading import rejects
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.settings import ReadSettings

MOMENT = datetime(2024, 3, 1, 10, 0, 5)
NOTES: list[list[object]] = [["Exported by", "Analytics"], ["on", MOMENT]]
ROWS: list[list[object]] = [
    ["Site search, March"],
    [],
    ["time", "user", "query", "click", "results"],
    [MOMENT, 17, "red shoes", None, 12],
    [MOMENT.replace(second=30), 17, "red <boots>", "https://shop.example/p/7", 3],
    ["2024-03-01 11:00:00", "x-18", 1984, None, 3],
    [MOMENT, None, "nobody", None, 1],
]


def read(
    tmp_path: Path, data: bytes, columns: dict[str, str] | None = None
) -> tuple[ReadResult, pl.DataFrame]:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    (folder / "log.xlsx").write_bytes(data)
    settings = ReadSettings(columns=columns, max_rejected=1.0)
    result = read_logs([folder / "log.xlsx"], settings, folder / "work")
    return result, pl.read_parquet(folder / "work" / "rows").sort("row")


def test_rows_of_the_sheet_that_has_the_columns(tmp_path: Path) -> None:
    result, rows = read(tmp_path, workbook(NOTES, ROWS))
    assert result.reason == "it starts with the mark of an Excel workbook"
    assert rows.select("user", "time", "query", "click").rows() == [
        ("17", MOMENT, "red shoes", None),
        ("17", MOMENT.replace(second=30), "red <boots>", "https://shop.example/p/7"),
        ("x-18", datetime(2024, 3, 1, 11), "1984", None),
    ]
    assert rows["row"].to_list() == [4, 5, 6], "the row as Excel numbers it"
    assert result.reasons == {rejects.NO_USER: 1}


def test_columns_by_name(tmp_path: Path) -> None:
    named: Any = [["Who", "When", "What"], ["a", MOMENT, "red"]]
    columns = {"user": "Who", "time": "When", "query": "What"}
    _, rows = read(tmp_path, workbook(named), columns)
    assert rows["query"].to_list() == ["red"]
    with pytest.raises(LogError, match="has no column 'user', 'time', 'query'; it has Who, When"):
        read(tmp_path, workbook(named))


def test_what_is_no_workbook_is_named(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("log.csv", "user,time,query")
    with pytest.raises(LogError, match="no Excel workbook; unpack it"):
        read(tmp_path, stream.getvalue())
    with pytest.raises(LogError, match="cannot be read as a workbook"):
        read(tmp_path, b"PK\x03\x04 and nothing more")
    with pytest.raises(LogError, match="cannot be read as a workbook"):
        read(tmp_path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(LogError, match="a workbook without rows"):
        read(tmp_path, workbook([]))


@pytest.mark.parametrize(("corner", "cells"), [("XFD40000", "655,360,000"), ("AB999999", "27,")])
def test_a_single_cell_far_away_is_refused(tmp_path: Path, corner: str, cells: str) -> None:
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(workbook(ROWS))) as old,
        zipfile.ZipFile(stream, "w") as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'r="A1"', f'r="{corner}"'.encode()))
    with pytest.raises(LogError, match=f"span {cells}"):
        read(tmp_path, stream.getvalue())


def test_blocks_are_bounded_in_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "_BLOCK_CHARACTERS", 40)
    long: Any = [["time", "user", "query"], *([MOMENT, "u", "x" * 30] for _ in range(5))]
    _, rows = read(tmp_path, workbook(long))
    assert rows["row"].to_list() == [2, 3, 4, 5, 6]
    assert len(list(tmp_path.rglob("part-*.parquet"))) == 5


def test_a_small_file_of_a_huge_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = workbook(ROWS)
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'r="A1"', b'r="XFD1048576"'))
    with pytest.raises(LogError, match=r"span 17,179,869,184 cells; save it as CSV"):
        read(tmp_path, stream.getvalue())
    monkeypatch.setattr(excel, "_LARGEST", 100)
    with pytest.raises(LogError, match=r"unpacks to [\d,]+ bytes"):
        read(tmp_path, data)


def test_the_names_below_a_title_are_told_with_the_columns_to_choose(tmp_path: Path) -> None:
    report: Any = [
        ["Site search, March"],
        [],
        ["Visitor ID", "Date", "Term"],
        ["u", MOMENT, "hats"],
    ]
    with pytest.raises(LogError, match=r"it has Visitor ID, Date, Term: .*user=Visitor ID,time="):
        read(tmp_path, workbook(report))
    columns = {"user": "Visitor ID", "time": "Date", "query": "Term"}
    _, rows = read(tmp_path, workbook(report), columns)
    assert rows["query"].to_list() == ["hats"]


def test_without_the_library_its_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nextquery\[excel\]'"):
        read(tmp_path, workbook(ROWS))


def test_a_header_in_capitals_is_found_below_a_title_and_on_a_later_sheet(tmp_path: Path) -> None:
    capitals = [[str(name).upper() for name in ROWS[2]] if row is ROWS[2] else row for row in ROWS]
    result, rows = read(tmp_path, workbook(NOTES, capitals))
    assert result.rows_accepted == 3
    assert rows["query"].to_list() == ["red shoes", "red <boots>", "1984"]

from datetime import date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from nextquery.errors import LogError
from nextquery.logs.formats import parquet
from nextquery.logs.formats.parquet import parse_batch, read_batches
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.rows import ParsedRows

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
        (2, rejected_rows.EMPTY_QUERY),
        (3, rejected_rows.EMPTY_QUERY),
        (4, rejected_rows.MALFORMED_TEXT),
        (5, rejected_rows.NUL_BYTE),
        (6, rejected_rows.NO_USER),
    ]


def test_a_date_is_no_time(tmp_path: Path) -> None:
    (parsed,) = parse(tmp_path, {"user": ["a"], "time": [date(2006, 3, 1)], "query": ["red"]})
    assert parsed.rejected["reason"].to_list() == ["time not understood"]


def test_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="has no column 'time'; it has user, query"):
        parse(tmp_path, {"user": ["a"], "query": ["b"]})


def test_column_of_lists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"column 'query' is a .*list.*, not a value"):
        parse(tmp_path, {"user": ["a"], "time": [MOMENT], "query": [["red", "shoes"]]})


def test_broken_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1 but nothing more")
    with pytest.raises(LogError, match=r"log\.parquet: cannot be read as Parquet"):
        list(read_batches(path, None))

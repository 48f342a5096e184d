"""The joins and windows that engines on files share, tried on DuckDB."""

from collections.abc import Iterator
from pathlib import Path

import narwhals as nw
import polars as pl
import pyarrow as pa
import pytest

from nextquery.logs.engines.base import Frame, RelationalEngine
from nextquery.logs.engines.duckdb import DuckdbEngine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RelationalEngine]:
    opened = DuckdbEngine(tmp_path / "work")
    yield opened
    opened.close()


def _frame(engine: RelationalEngine, folder: Path, rows: pl.DataFrame) -> Frame:
    folder.mkdir()
    rows.write_parquet(folder / "part-00000.parquet")
    return engine.scan(folder)


def test_texts_become_ids_and_null_stays_null(engine: RelationalEngine, tmp_path: Path) -> None:
    rows = pl.DataFrame({"row": [1, 2, 3, 4], "query": ["b", None, "a", "b"]})
    coded, (texts,) = engine.encode(_frame(engine, tmp_path / "rows", rows), {"query": "query_id"})
    assert coded.select("row", "query_id").sort("row").collect("polars").rows() == [
        *((1, 2), (2, None), (3, 1), (4, 2))
    ]
    assert texts.select("query_id", "query").sort("query_id").collect("polars").rows() == [
        *((1, "a"), (2, "b"))
    ]


def test_a_window_sees_the_rows_of_a_user_by_time_and_row(
    engine: RelationalEngine, tmp_path: Path
) -> None:
    rows = pl.DataFrame({"user_id": [1, 1, 2, 1], "time": [5, 4, 1, 5], "row": [9, 2, 1, 3]})
    frame = engine.sort_rows(_frame(engine, tmp_path / "rows", rows), "ordered")
    found = frame.with_columns(before=engine.ordered(nw.col("row").shift(1))).lazy()
    table = found.select("row", "before").sort("row").collect("polars").rows()
    assert table == [(1, None), (2, None), (3, 2), (9, 3)]


def test_rows_are_written_in_order(engine: RelationalEngine, tmp_path: Path) -> None:
    rows = pl.DataFrame({"text": ["c", "b", "a"], "count": [1, 2, 2]})
    schema = pa.schema({"text": pa.string(), "count": pa.int64()})
    file = tmp_path / "table.parquet"
    frame = _frame(engine, tmp_path / "rows", rows)
    assert engine.write(frame, file, schema, ["-count", "text"]) == 3
    assert pl.read_parquet(file).rows() == [("a", 2), ("b", 2), ("c", 1)]

"""Tables in files, joins and windows, on DuckDB; what all engines share is in `test_base`."""

from collections.abc import Iterator
from pathlib import Path

import narwhals as nw
import polars as pl
import pytest

from nextquery.logs.engines.base import Frame
from nextquery.logs.engines.duckdb import DuckdbEngine

SCHEMA = pl.Schema({"text": pl.String(), "count": pl.Int64()})


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckdbEngine]:
    opened = DuckdbEngine(tmp_path / "work")
    yield opened
    opened.close()


def _frame(engine: DuckdbEngine, folder: Path, rows: pl.DataFrame) -> Frame:
    folder.mkdir()
    rows.write_parquet(folder / "part-00000.parquet")
    return engine.scan(folder)


def test_intermediate_tables_are_files_of_the_work_folder(
    engine: DuckdbEngine, tmp_path: Path
) -> None:
    frame = _frame(engine, tmp_path / "rows", pl.DataFrame({"text": ["b", "a"]}))
    engine.materialise(frame, "kept")
    assert (tmp_path / "work" / "kept" / "part-00000.parquet").is_file()


def test_ids_follow_the_order_of_texts(engine: DuckdbEngine, tmp_path: Path) -> None:
    frame = _frame(engine, tmp_path / "rows", pl.DataFrame({"text": ["b", "a", "c"]}))
    numbered = engine.number(frame, "text", "id", in_text_order=True).collect("polars")
    assert sorted(numbered.select("id", "text").rows()) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_function_is_applied_to_batches_and_kept(engine: DuckdbEngine, tmp_path: Path) -> None:
    frame = _frame(engine, tmp_path / "rows", pl.DataFrame({"text": ["a", "bb"]}))
    measured = engine.apply(
        frame,
        lambda batch: batch.with_columns(count=pl.col("text").str.len_chars().cast(pl.Int64)),
        SCHEMA,
        "measured",
    )
    assert sorted(measured.collect("polars").rows()) == [("a", 1), ("bb", 2)]


def test_texts_become_ids_and_null_stays_null(engine: DuckdbEngine, tmp_path: Path) -> None:
    rows = pl.DataFrame({"row": [1, 2, 3, 4], "query": ["b", None, "a", "b"]})
    coded, (texts,) = engine.encode(_frame(engine, tmp_path / "rows", rows), {"query": "query_id"})
    assert coded.select("row", "query_id").sort("row").collect("polars").rows() == [
        *((1, 2), (2, None), (3, 1), (4, 2))
    ]
    assert texts.select("query_id", "query").sort("query_id").collect("polars").rows() == [
        *((1, "a"), (2, "b"))
    ]


def test_a_window_sees_the_rows_of_a_user_by_time_and_row(
    engine: DuckdbEngine, tmp_path: Path
) -> None:
    rows = pl.DataFrame({"user_id": [1, 1, 2, 1], "time": [5, 4, 1, 5], "row": [9, 2, 1, 3]})
    frame = engine.sort_rows(_frame(engine, tmp_path / "rows", rows), "ordered")
    shifted = frame.with_columns(before=engine.ordered(nw.col("row").shift(1))).lazy()
    table = shifted.select("row", "before").sort("row").collect("polars").rows()
    assert table == [(1, None), (2, None), (3, 2), (9, 3)]


def test_rows_are_written_in_order(engine: DuckdbEngine, tmp_path: Path) -> None:
    rows = pl.DataFrame({"text": ["c", "b", "a"], "count": [1, 2, 2]})
    file = tmp_path / "table.parquet"
    frame = _frame(engine, tmp_path / "rows", rows)
    assert engine.write(frame, file, SCHEMA, ["-count", "text"]) == 3
    assert pl.read_parquet(file).rows() == [("a", 2), ("b", 2), ("c", 1)]

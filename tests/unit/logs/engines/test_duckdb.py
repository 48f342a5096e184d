"""What the DuckDB engine does by itself; what all engines share is in `test_base`."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from nextquery.logs.engines.base import Frame
from nextquery.logs.engines.duckdb import DuckdbEngine

SCHEMA = pa.schema({"text": pa.string(), "count": pa.int64()})


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

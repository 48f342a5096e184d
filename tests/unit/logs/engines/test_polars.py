"""What the Polars engine does by itself; what all engines share is in `test_base`."""

from pathlib import Path

import narwhals as nw
import polars as pl
import pyarrow as pa

from nextquery.logs.engines.polars import PolarsEngine

SCHEMA = pa.schema({"text": pa.string(), "count": pa.int64()})


def _frame(**columns: list[object]) -> nw.LazyFrame[pl.LazyFrame]:
    return nw.from_native(pl.DataFrame(columns).lazy())


def test_rows_are_written_sorted_and_in_the_types_of_the_schema(tmp_path: Path) -> None:
    frame = _frame(count=[1, 2, 2], text=["c", "b", "a"], more=[0, 0, 0])
    file = tmp_path / "new" / "table.parquet"
    assert PolarsEngine().write(frame, file, SCHEMA, ["-count", "text"]) == 3
    found = pl.read_parquet(file)
    assert found.rows() == [("a", 2), ("b", 2), ("c", 1)]
    assert found.schema == {"text": pl.String, "count": pl.Int64}


def test_a_function_sees_every_row_once_in_order() -> None:
    rows = 70_000
    frame = _frame(number=list(range(rows)))
    found = PolarsEngine().apply(frame, lambda batch: batch * 2, SCHEMA, "doubled")
    assert found.collect().to_native()["number"].to_list() == list(range(0, 2 * rows, 2))


def test_lookup_takes_columns_by_index_and_keeps_nulls() -> None:
    table = _frame(key=[0, 1], text=["zero", "one"])
    found = PolarsEngine().lookup(_frame(key=[1, None, 0]), table, "key")
    assert found.collect().to_native()["text"].to_list() == ["one", None, "zero"]


def test_rows_are_sorted_by_user_time_and_row() -> None:
    frame = _frame(user_id=[2, 1, 1, 1], time=[0, 5, 5, 4], row=[1, 9, 3, 2])
    ordered = PolarsEngine().sort_rows(frame, "ordered")
    assert ordered.to_native()["row"].to_list() == [2, 3, 9, 1]

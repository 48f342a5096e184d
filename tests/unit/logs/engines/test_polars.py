"""What the Polars engine does by itself; what all engines share is in `test_base`."""

from collections.abc import Sequence
from pathlib import Path

import narwhals as nw
import polars as pl
import pytest

from nextquery.logs.engines import polars
from nextquery.logs.engines.base import Frame, Rows
from nextquery.logs.engines.polars import PolarsEngine

SCHEMA = pl.Schema({"text": pl.String(), "count": pl.Int64()})


def _frame(**columns: Sequence[object]) -> nw.LazyFrame[pl.LazyFrame]:
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


def _cuts(rows: nw.LazyFrame[pl.LazyFrame]) -> tuple[list[list[int]], pl.DataFrame]:
    """The users of each part that a function is given, and what it makes of all of them."""
    seen: list[list[int]] = []

    def counts(part: Rows) -> tuple[Frame, ...]:
        seen.append(part.to_native()["user_id"].unique(maintain_order=True).to_list())
        return (part.lazy().with_columns(rows=nw.len()),)

    engine = PolarsEngine()
    (found,) = engine.by_users(engine.sort_rows(rows, "sorted"), counts, ["counted"])
    return seen, found.collect().to_native()


def test_rows_are_cut_between_users_only(monkeypatch: pytest.MonkeyPatch) -> None:
    users = [3, 1, 1, 2, 2, 2, 2, 2, 4]
    frame = _frame(user_id=users, time=[0] * 9, row=list(range(9)))
    assert _cuts(frame)[0] == [[1, 2, 3, 4]]
    monkeypatch.setattr(polars, "_PART_ROWS", 3)
    seen, found = _cuts(frame)
    assert seen == [[1, 2], [3, 4]], "the second user's rows stay together"
    assert found["row"].to_list() == [1, 2, 3, 4, 5, 6, 7, 0, 8]
    assert found["rows"].to_list() == [7] * 7 + [2] * 2


@pytest.mark.parametrize("users", [[1, 1, 2, 2, 2, 3], [3, 1, 2, 1, 2, 2]])
def test_counts_of_parts_add_up(users: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows do not lie by user: then there are no parts."""
    frame = _frame(user_id=users, word_id=[7, 7, 7, 8, 8, 7])
    monkeypatch.setattr(polars, "_PART_ROWS", 2)
    found = PolarsEngine().count_with_users(frame, ["word_id"]).collect().to_native()
    rows = list(zip(users, [7, 7, 7, 8, 8, 7], strict=True))
    right = {key: len({user for user, other in rows if other == key}) for key in (7, 8)}
    assert dict(found.select("word_id", "users").iter_rows()) == right
    assert dict(found.select("word_id", "count").iter_rows()) == {7: 4, 8: 2}


def test_texts_are_looked_up_as_rows_are_written(tmp_path: Path) -> None:
    frame = _frame(key=[0, None, 1], count=[3, 2, 1])
    table = _frame(key=[0, 1], text=["zero", "one"])
    engine, file = PolarsEngine(), tmp_path / "table.parquet"
    assert engine.write(frame, file, SCHEMA, ["count"], {"key": table}) == 3
    assert pl.read_parquet(file).rows() == [("one", 1), (None, 2), ("zero", 3)]


def test_a_table_without_rows_is_a_file(tmp_path: Path) -> None:
    frame = _frame(text=["a"], count=[1]).filter(nw.col("count") > 1)
    assert PolarsEngine().write(frame, tmp_path / "none.parquet", SCHEMA, ["text"]) == 0
    assert pl.read_parquet(tmp_path / "none.parquet").columns == ["text", "count"]

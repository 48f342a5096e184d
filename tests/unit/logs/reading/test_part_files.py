from pathlib import Path

import polars as pl

from nextquery.logs.reading.rows import read_arrow, unify, write_arrow, write_parquet

ROWS = pl.DataFrame({"user": ["a", "b", "a"], "click": [None, "x", None], "row": [1, 2, 3]})


def test_parquet_parts_hold_the_rows(tmp_path: Path) -> None:
    write_parquet(ROWS, tmp_path / "part-00000")
    assert pl.read_parquet(tmp_path / "part-00000.parquet").equals(ROWS)


def test_arrow_parts_share_one_dictionary_in_the_order_of_first_appearance(tmp_path: Path) -> None:
    write_arrow(ROWS, tmp_path / "part-00000")
    write_arrow(ROWS.with_columns(user=pl.Series(["c", "b", "c"])), tmp_path / "part-00001")
    table = read_arrow(sorted(tmp_path.glob("*.arrow")))
    assert table["row"].to_pylist() == [1, 2, 3, 1, 2, 3]
    users = unify(table["user"])
    assert users.to_pylist() == ["a", "b", "a", "c", "b", "c"]
    assert users.dictionary.to_pylist() == ["a", "b", "c"]
    assert unify(table["click"]).to_pylist() == [None, "x", None, None, "x", None]

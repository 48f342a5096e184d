"""Clicks by query id; UBI and Algolia test the whole of it."""

from datetime import datetime
from pathlib import Path

import narwhals as nw
import polars as pl
import pytest

from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.engines.open import open_engine
from nextquery.logs.formats.base import STAGED_COLUMNS, join_clicks, stage_clicks
from nextquery.logs.reading import rejects

TEN = datetime(2025, 2, 18, 10)


def find_re(engine: Engine, queries: Frame, clicks: Frame) -> Frame:
    return queries.filter(nw.col("query") == "re")


@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_clicks_follow_their_query_and_what_is_left_out_is_named(tmp_path: Path, name: str) -> None:
    rows = [
        (None, None, None, "x", 1, "a", "log", 1),
        ("u", TEN, "re", None, 2, None, "log", 2),
        ("u", TEN, "red", None, 3, "a", "log", 3),
        (None, None, None, "x", 4, "b", "log", 4),
    ]
    schema: dict[str, pl.DataType] = dict.fromkeys(STAGED_COLUMNS, pl.String())
    frame = pl.DataFrame(
        rows,
        schema | {"time": pl.Datetime("us"), "row": pl.Int64(), "line": pl.Int64()},
        orient="row",
    )
    staged, joined = tmp_path / "it's staged", tmp_path / "rows"
    staged.mkdir()
    joined.mkdir()
    frame.write_parquet(staged / "part-00000.parquet")
    engine = open_engine(name, tmp_path / "work")
    done = join_clicks(engine, staged, joined, find_re)
    engine.close()
    assert done.written == 2
    assert done.rejected.select("file", "line", "reason", "excerpt").rows() == [
        ("log", 2, rejects.TYPED_FURTHER, "re"),
        ("log", 4, rejects.UNKNOWN_QUERY, "b"),
    ]
    written = pl.read_parquet(joined)
    assert written.select("query", "click").rows() == [("red", None), ("red", "x")]
    assert written.select("row", "place").rows() == [(1, 3), (2, 1)]


def test_a_staged_click_has_no_text_of_its_own() -> None:
    clicks = pl.DataFrame({"line": [1], "query_id": ["a"], "click": ["x"], "reason": [None]})
    assert stage_clicks(clicks).rows() == [(1, None, None, "a", "x", None)]


def test_long_texts_are_cut_before_they_are_joined() -> None:
    click = {"line": 1, "query_id": "q" * 9000, "click": "x" * 9000}
    [row] = stage_clicks(pl.DataFrame([click])).rows(named=True)
    assert (len(row["query_id"]), len(row["click"]), row["query"]) == (4000, 4000, None)

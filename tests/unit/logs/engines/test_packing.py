"""Packed numbers order and count rows as their columns do."""

from datetime import datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.logs.engines.base import count_packed, pack, sort_rows

_NUMBERS = st.integers(-3, 3)
_ROWS = st.lists(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS), min_size=1, max_size=30)


def _frame(rows: list[tuple[int, int, int]]) -> pl.DataFrame:
    schema = {"query_id": pl.Int32, "next_id": pl.Int32, "user_id": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("row")


@settings(max_examples=100, deadline=None)
@given(_ROWS, st.tuples(st.booleans(), st.booleans()))
def test_sorting_is_that_of_the_columns_and_stable(
    rows: list[tuple[int, int, int]], downwards: tuple[bool, bool]
) -> None:
    frame = _frame(rows)
    expected = frame.sort("query_id", "next_id", descending=list(downwards), maintain_order=True)
    assert sort_rows(frame, ["query_id", "next_id"], downwards).equals(expected)


@settings(max_examples=100, deadline=None)
@given(_ROWS)
def test_tally_counts_rows_and_different_users(rows: list[tuple[int, int, int]]) -> None:
    keys = ["query_id", "next_id"]
    expected = (
        _frame(rows)
        .group_by(keys)
        .agg(count=pl.len().cast(pl.Int64), users=pl.col("user_id").n_unique().cast(pl.Int64))
        .sort(keys)
    )
    found = count_packed(_frame(rows), keys, "user_id")
    assert found is not None
    assert found.select(expected.columns).equals(expected)
    assert found.schema["query_id"] == pl.Int32


def test_times_are_packed() -> None:
    start = datetime(2006, 3, 1)
    frame = pl.DataFrame({"user_id": [2, 1, 1], "time": [start, start + timedelta(1), start]})
    assert sort_rows(frame, ["user_id", "time"], [False, False]).rows() == [
        (1, start),
        (1, start + timedelta(1)),
        (2, start),
    ]


@pytest.mark.parametrize(
    "column", [[0, 2**62], ["a", "b"], [None, 1], []], ids=["wide", "text", "null", "empty"]
)
def test_what_cannot_be_packed_is_left_to_others(column: list[object]) -> None:
    frame = pl.DataFrame({"query_id": column, "user_id": pl.Series([0, 2][: len(column)])})
    assert pack(frame, ["query_id", "user_id"], [False, False]) is None
    assert count_packed(frame, ["query_id"], "user_id") is None
    assert sort_rows(frame, ["query_id", "user_id"], [True, False]).height == frame.height


def test_63_bits_are_used_and_no_more() -> None:
    frame = pl.DataFrame({"query_id": [0, 2**62 - 1], "user_id": [0, 1]})
    packed = pack(frame, ["query_id", "user_id"], [False, False])
    assert packed is not None
    assert packed.values.to_list() == [0, 2**63 - 1]

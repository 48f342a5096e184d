"""Counting what follows what in sessions: Narwhals expressions that any log engine can run.

Knows session rows and symbols (numbers of queries or concepts); knows no model. A query that has no
symbol breaks the sequence: nothing is counted across it.
"""

from collections.abc import Sequence

import narwhals as nw
import polars as pl

from nextquery.logs.prepared import PreparedData


def symbol_rows(data: PreparedData, symbols: pl.DataFrame) -> nw.LazyFrame[pl.LazyFrame]:
    """The background's rows (session, position, symbol); `symbols` maps query to symbol."""
    rows = nw.from_native(data.session_rows("background"))
    named = nw.from_native(symbols.lazy())
    return rows.join(named, on="query", how="left").select("session", "position", "symbol")


def without_repeats(rows: nw.LazyFrame[pl.LazyFrame]) -> nw.LazyFrame[pl.LazyFrame]:
    """The rows whose symbol differs from the one before in the session."""
    before = nw.col("symbol").shift(1).over("session", order_by="position")
    changed = (nw.col("symbol") != before) | before.is_null() | nw.col("symbol").is_null()
    return rows.filter(changed)


def following(rows: nw.LazyFrame[pl.LazyFrame], length: int) -> pl.DataFrame:
    """How often each symbol came after each sequence of `length` symbols.

    Columns: back1 (the symbol just before), back2, ..., symbol, count.
    """
    back = earlier(length)
    shifted = [
        nw.col("symbol").shift(steps).over("session", order_by="position").alias(name)
        for steps, name in enumerate(back, start=1)
    ]
    counted = rows.with_columns(*shifted).drop_nulls().group_by(*back, "symbol")
    return counted.agg(nw.len().alias("count")).to_native().collect(engine="streaming")


def earlier(length: int) -> Sequence[str]:
    """The names of the columns of a sequence, newest symbol first."""
    return [f"back{steps}" for steps in range(1, length + 1)]

"""Counting sequences in background sessions with the log engine, weighted by usefulness."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.artifacts import temporary_folder
from nextquery.errors import InputError
from nextquery.logs.counting import NO_CLICKS, UNDECIDED, USEFUL, undecided_share, with_usefulness
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.engines import open_engine
from nextquery.logs.engines.base import Engine, Frame
from nextquery.suggesters.background import (
    DAY,
    Ages,
    AgingSettings,
    Background,
    Followers,
    frequency_ranks,
    with_day,
)


@dataclass(frozen=True)
class BackgroundLog:
    """The background of a prepared log in an engine, with a folder for intermediate tables."""

    data: PreparedData
    engine: Engine
    work: Path

    def rows(self) -> Frame:
        """The rows of the background's sessions of two or more queries, one row per query."""
        return self.engine.scan(self.data.session_folder("background"))

    def searches(self) -> Frame:
        """The rows of all searches of the background, single ones included."""
        folders = self.data.search_folders("background")
        return nw.concat([self.engine.scan(folder) for folder in folders])

    def known(self) -> pl.DataFrame:
        """The known queries: the column query."""
        return self.data.counts("queries").select("query").collect()

    def table(self, rows: pl.DataFrame, name: str) -> Frame:
        """A small table of our own, where the engine can join it."""
        folder = self.work / name
        folder.mkdir()
        rows.write_parquet(folder / "part-00000.parquet")
        return self.engine.scan(folder)

    def symbols(self, symbols: pl.DataFrame, *, by_day: bool = False) -> Frame:
        """The rows as session, position and symbol; `symbols` maps query to symbol.

        With `by_day` they have their day, too.
        """
        named = self.table(symbols, "symbols")
        rows = with_day(self.rows()) if by_day else self.rows()
        joined = rows.join(named, on="query", how="left")
        return joined.select("session", "position", "symbol", *([DAY] if by_day else []))

    def ages(self, settings: AgingSettings) -> Ages | None:
        """What a day of the background weighs; None where all weigh the same."""
        if not settings.ages:
            return None
        last = collected(with_day(self.searches()).select(nw.col(DAY).max())).item()
        return Ages(settings, last)


@contextmanager
def open_log(data: PreparedData, engine: str, spark_master: str) -> Iterator[BackgroundLog]:
    """The background in the engine of that name; its intermediate files go when it is closed."""
    with temporary_folder() as work:
        opened = open_engine(engine, work, spark_master)
        try:
            yield BackgroundLog(data, opened, work)
        finally:
            opened.close()


def without_repeats(rows: Frame) -> Frame:
    """The rows whose symbol differs from the one before in the session."""
    before = nw.col("symbol").shift(1).over("session", order_by="position")
    marked = rows.with_columns(before=before)
    changed = (nw.col("symbol") != nw.col("before")) | nw.col("before").is_null()
    deduplicated = marked.filter(changed | nw.col("symbol").is_null())
    return deduplicated.drop("before")


def following(
    log: BackgroundLog, rows: Frame, depth: int, ages: Ages | None = None
) -> list[pl.DataFrame]:
    """How often each symbol came after each sequence of 1, 2, ... `depth` symbols.

    A table a length with the columns back1 (the symbol just before), back2, ..., symbol, count.
    With `ages` the rows have their day and the counts are weighed.
    """
    shifted = [
        nw.col("symbol").shift(steps).over("session", order_by="position").alias(name)
        for steps, name in enumerate(earlier(depth), start=1)
    ]
    day = [] if ages is None else [DAY]
    looking_back = rows.with_columns(*shifted).select("symbol", *earlier(depth), *day)
    # Kept: each length counts the same rows.
    looking_back_rows = log.engine.materialise(
        looking_back.drop_nulls(["symbol", "back1"]), "looking_back"
    )
    levels = []
    for length in range(1, depth + 1):
        columns = [*earlier(length), "symbol"]
        by = [*columns, *day]
        rows = looking_back_rows.select(*by).drop_nulls()
        counted = collected(rows.group_by(*by).agg(nw.len().alias("count")))
        levels.append(counted if ages is None else ages.weigh(counted, columns))
    return levels


def earlier(length: int) -> Sequence[str]:
    """The names of the columns of a sequence, newest symbol first."""
    return [f"back{steps}" for steps in range(1, length + 1)]


def collected(frame: Frame) -> pl.DataFrame:
    """The rows of a counted table, in no particular order."""
    native = frame.to_native()
    if isinstance(native, pl.LazyFrame):
        return native.collect(engine="streaming")
    rows: pl.DataFrame = frame.collect("polars").to_native()
    return rows


Floats = NDArray[np.float64]

ORDINARY = 10.0
"""Imaginary occurrences of every query that were as useful as all are together."""


def count_factors(
    typed: Floats, useful: Floats, weight: float, groups: NDArray[Any] | None = None
) -> Floats:
    """What a count of each query is multiplied by; with `groups`, one factor per group.

    `typed` is how often each was typed, `useful` how many of those times it was useful.

    >>> count_factors(np.array([10.0, 30.0]), np.array([10.0, 10.0]), 3).tolist()  # 15/20 and 15/40
    [2.5, 1.75]
    """
    if groups is not None:
        typed = np.bincount(groups, typed).astype(np.float64)
        useful = np.bincount(groups, useful).astype(np.float64)
    ordinary = useful.sum() / typed.sum()
    share = (useful + ORDINARY * ordinary) / (typed + ORDINARY)
    return np.asarray(1 + (weight - 1) * share, dtype=np.float64)


def useful_factors(
    log: BackgroundLog, background: Background, weight: float, groups: NDArray[Any] | None = None
) -> Floats | None:
    """What a count of each known query, or group, is multiplied by; None where all are the same.

    An undecided query is useful with the share of those that are decided. A log without clicks is
    refused.
    """
    if weight == 1:
        return None
    marks = [nw.col(name).cast(nw.Int64).sum().alias(name) for name in (USEFUL, UNDECIDED)]
    clicked = (nw.col("clicks") > 0).cast(nw.Int64).alias("clicked")
    rows = with_usefulness(log.rows()).with_columns(clicked)
    sums = [nw.len().alias("typed"), *marks, nw.col("clicked").sum()]
    counted = collected(rows.group_by("query").agg(*sums)).sort("query")
    if not counted["clicked"].sum():
        raise InputError(f"{log.data.path}: {NO_CLICKS}; leave out `useful_weight`")
    useful, undecided = counted[USEFUL].cast(pl.Float64), counted[UNDECIDED].cast(pl.Float64)
    followed = int(counted["clicked"].sum()) - int(counted[UNDECIDED].sum())
    share = undecided_share(int(counted[USEFUL].sum()), followed)
    queries = counted["query"].to_list()
    return count_factors(
        background.by_number(queries, counted["typed"].to_numpy()),
        background.by_number(queries, (useful + undecided * share).to_numpy()),
        weight,
        groups,
    )


def count_followers(
    log: BackgroundLog, background: Background, pairs: pl.DataFrame, useful_weight: float
) -> Followers:
    """Followers of counted pairs (query, next, count); useful queries weigh more."""
    following = background.ids(pairs["next"].to_list())
    counts = pairs["count"].to_numpy()
    factors = useful_factors(log, background, useful_weight)
    return Followers.from_counts(
        background.ids(pairs["query"].to_list()),
        following,
        counts if factors is None else counts * factors[following],
        len(background.counts),
        frequency_ranks(background),
    )


def weigh_symbols(levels: Sequence[pl.DataFrame], factors: Floats | None) -> list[pl.DataFrame]:
    """Counted sequences (..., symbol, count), each count times the factor of its symbol."""
    if factors is None:
        return list(levels)
    return [
        level.with_columns(
            count=level["count"].cast(pl.Float64) * pl.Series(factors[level["symbol"].to_numpy()])
        )
        for level in levels
    ]

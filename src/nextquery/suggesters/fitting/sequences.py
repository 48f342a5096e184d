"""Counting in the background's sessions with the log engine: Polars, DuckDB or Spark.

Narwhals expressions only, so that the engine that prepared a large log can also count it. Knows
session rows and symbols (numbers of queries or concepts); knows no model. A query that has no
symbol breaks the sequence: nothing is counted across it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import narwhals as nw
import polars as pl

from nextquery.logs.data_folder import PreparedData
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.engines.opening import open_engine
from nextquery.suggesters.aging import AgingSettings
from nextquery.suggesters.fitting.ages import DAY, Ages, with_day


@dataclass(frozen=True)
class BackgroundLog:
    """The background of a prepared log in an engine, with a folder for intermediate tables."""

    data: PreparedData
    engine: Engine
    work: Path

    def rows(self) -> Frame:
        """The background's rows, a row a query."""
        return self.engine.scan(self.data.session_folder("background"))

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
        last = collected(with_day(self.rows()).select(nw.col(DAY).max())).item()
        return Ages(settings, last)


@contextmanager
def open_log(data: PreparedData, engine: str, spark_master: str) -> Iterator[BackgroundLog]:
    """The background in the engine of that name; its intermediate files go when it is closed."""
    with TemporaryDirectory(prefix="nextquery-fit-") as work:
        opened = open_engine(engine, Path(work), spark_master)
        try:
            yield BackgroundLog(data, opened, Path(work))
        finally:
            opened.close()


def without_repeats(rows: Frame) -> Frame:
    """The rows whose symbol differs from the one before in the session."""
    before = nw.col("symbol").shift(1).over("session", order_by="position")
    marked = rows.with_columns(before=before)
    changed = (nw.col("symbol") != nw.col("before")) | nw.col("before").is_null()
    kept = marked.filter(changed | nw.col("symbol").is_null())
    return kept.drop("before")


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
    kept = log.engine.materialise(looking_back.drop_nulls(["symbol", "back1"]), "looking_back")
    return [_following(kept, length, ages) for length in range(1, depth + 1)]


def _following(rows: Frame, length: int, ages: Ages | None) -> pl.DataFrame:
    columns = [*earlier(length), "symbol"]
    by = columns if ages is None else [*columns, DAY]
    counted = collected(rows.select(*by).drop_nulls().group_by(*by).agg(nw.len().alias("count")))
    return counted if ages is None else ages.weigh(counted, columns)


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

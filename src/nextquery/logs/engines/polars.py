"""The Polars engine: scans and joins stream, intermediate tables stay in memory as integers."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import cast

import narwhals as nw
import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from nextquery.logs.engines.base import (
    ROW_GROUP,
    BatchFunction,
    Engine,
    Frame,
    Rows,
    T,
    U,
    sort_keys,
)

_BATCH_ROWS = 1 << 15
_PART_ROWS = 1 << 21
"""Rows that are taken together where it can be done by user, and those of one more user."""


class PolarsEngine(Engine):
    """Polars: for a log whose ids fit in memory."""

    name = "polars"

    def scan(self, folder: Path) -> Frame:
        """The rows of all files of a folder."""
        return nw.from_native(pl.scan_parquet(sorted(folder.glob("*.parquet")), glob=False))

    def materialise(self, frame: Frame, name: str) -> Frame:
        """The same rows, held in memory."""
        return nw.from_native(_collect(frame).lazy())

    def apply(self, frame: Frame, function: BatchFunction, schema: pl.Schema, name: str) -> Frame:
        """What `function` makes of the rows, several batches at a time."""
        rows = _collect(frame)
        batches = list(rows.iter_slices(_BATCH_ROWS)) or [rows]
        with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
            applied = pl.concat(list(pool.map(function, batches)))
        return nw.from_native(applied.lazy())

    def encode(
        self, frame: Frame, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """Replace texts by their index in the dictionary; one column at a time, to save memory."""
        codes, dictionaries = [], []
        for name, key in columns.items():
            categories = pl.Categories.random()
            encoded = _collect(frame.select(name)).to_series().cast(pl.Categorical(categories))
            ids, texts = encoded.to_physical().cast(pl.Int32), categories.to_series().alias(name)
            if name not in unordered:
                order = texts.arg_sort()
                ranks = np.empty(len(order), dtype=np.int32)
                ranks[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
                ids, texts = pl.Series(ranks).gather(ids), texts.gather(order)
            codes.append(ids.alias(key))
            index = pl.int_range(len(texts), dtype=pl.Int32, eager=True).alias(key)
            dictionaries.append(nw.from_native(pl.DataFrame([index, texts]).lazy()))
        rows = _collect(frame.drop(*columns))
        return nw.from_native(rows.with_columns(codes).lazy()), dictionaries

    def lookup(self, frame: Frame, table: Frame, key: str) -> Frame:
        """Take the other columns of `table` by index: it is in the order of its ids."""
        rows, values = _collect(frame), _collect(table)
        added = values.drop(key).select(pl.all().gather(rows[key]))
        return nw.from_native(rows.with_columns(added.get_columns()).lazy())

    def count_with_users(self, frame: Frame, keys: Sequence[str]) -> Frame:
        """Sort ids and user packed into one number, or group where they do not fit into one.

        Some users at a time, if rows are sorted by user: fewer users make smaller numbers, so that
        larger logs fit, and their counts add up.
        """
        rows = _collect(frame.select(*keys, "user_id"))
        parts = [count_packed(part, keys, "user_id") for part in _user_parts(rows)]
        counted = [part for part in parts if part is not None]
        if len(counted) < len(parts):
            return super().count_with_users(frame, keys)
        if len(counted) == 1:
            return nw.from_native(counted[0].lazy())
        del rows
        return nw.from_native(pl.concat(counted).group_by(keys).sum().lazy())

    def sort_rows(self, frame: Frame, name: str) -> Rows:
        """The rows sorted in memory, so that an expression over them needs no window."""
        # The frame is kept, so that this engine of Polars does not copy it.
        kept: pl.DataFrame = frame.to_native().collect(engine="in-memory")
        return nw.from_native(kept.sort("user_id", "time", "row"), eager_only=True)

    def by_users(
        self, rows: Rows, function: Callable[[Rows], tuple[Frame, ...]], names: Sequence[str]
    ) -> tuple[Frame, ...]:
        """Some users at a time, so that intermediate results are small."""
        parts = []
        for part in _user_parts(rows.to_native()):
            frames = function(nw.from_native(part, eager_only=True))
            parts.append([_collect(frame) for frame in frames])
        joined = (pl.concat(column, rechunk=False) for column in zip(*parts, strict=True))
        return tuple(nw.from_native(frame.lazy()) for frame in joined)

    def ordered(self, expression: nw.Expr) -> nw.Expr:
        """The expression itself: the rows are sorted."""
        return expression

    def write(
        self,
        frame: Frame,
        file: Path,
        schema: pl.Schema,
        by: Sequence[str],
        texts: Mapping[str, Frame] = {},
    ) -> int:
        """Write the rows sorted; texts are looked up for one row group after the other."""
        names, downwards = sort_keys(by)
        rows = _collect(frame).sort(names, descending=downwards, maintain_order=True)
        tables = {key: _collect(table).drop(key) for key, table in texts.items()}

        def groups(*_: object) -> Iterator[pl.DataFrame]:
            for part in rows.iter_slices(ROW_GROUP):
                for key, table in tables.items():
                    part = part.with_columns(table.select(pl.all().gather(part[key])).get_columns())
                yield part.select(schema.names()).cast(schema)

        file.parent.mkdir(parents=True, exist_ok=True)
        register_io_source(groups, schema=schema).sink_parquet(
            file,
            compression="zstd",
            compression_level=1,
            statistics=False,
            row_group_size=ROW_GROUP,
            maintain_order=True,
        )
        return len(rows)

    def side_by_side(self, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
        """Run them in two threads: what one does on a single core leaves others to the other."""
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(second)
            return first(), waiting.result()

    def close(self) -> None:
        """Nothing to release."""


_LARGEST = 2**63


def count_packed(rows: pl.DataFrame, keys: Sequence[str], user: str) -> pl.DataFrame | None:
    """`count` of rows and of different `users` by keys; None where one number cannot hold them.

    Keys and user are packed into one Int64 per row, which orders the rows as the columns do.
    """
    lows, sizes = {}, {}
    for name in (*keys, user):
        values = rows[name]
        if not len(values) or not values.dtype.is_integer() or values.null_count():
            return None
        lows[name] = cast(int, values.min())
        sizes[name] = cast(int, values.max()) - lows[name] + 1
    if prod(sizes.values()) > _LARGEST:
        return None
    packed = pl.lit(0, pl.Int64)
    for name, low in lows.items():
        packed = packed * sizes[name] + pl.col(name).cast(pl.Int64) - low
    # Streamed: the steps of the sum stay in the cache.
    pairs = rows.lazy().select(packed=packed).collect(engine="streaming").to_series().sort()
    fresh = (pairs != pairs.shift(1)).fill_null(True)
    key = pairs // sizes[user]
    del pairs  # columns of this length decide the peak of memory
    # Equal keys are adjacent: the length of a run is the number of rows, or of distinct pairs.
    by_row = key.rle().struct.unnest()
    by_pair = key.filter(fresh).rle().struct.unnest()
    counts = by_row.select(
        key="value", count=pl.col("len").cast(pl.Int64), users=by_pair["len"].cast(pl.Int64)
    )
    for name in reversed(keys):
        column = (pl.col("key") % sizes[name] + lows[name]).cast(rows.schema[name]).alias(name)
        counts = counts.with_columns(column, key=pl.col("key") // sizes[name])
    return counts.drop("key")


def _collect(frame: Frame) -> pl.DataFrame:
    native: pl.LazyFrame = frame.to_native()
    return native.collect(engine="streaming")


def _user_parts(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows in parts without a common user, if they are sorted by user; else all at once."""
    users = rows["user_id"]
    if len(rows) <= _PART_ROWS or not users.is_sorted():
        yield rows
        return
    start = 0
    while start < len(rows):
        last = users[min(start + _PART_ROWS, len(rows)) - 1]
        end = int(users.search_sorted(last, side="right"))
        yield rows.slice(start, end - start)
        start = end

"""The Polars engine: scans and joins stream, intermediate tables stay in memory as integers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa

from nextquery.logs.engines.base import (
    ROW_GROUP,
    BatchFunction,
    Frame,
    Rows,
    T,
    U,
    count_rows_with_users,
    sort_keys,
)
from nextquery.logs.engines.packing import count_packed, sort_rows
from nextquery.logs.reading.part_files import PartWriter, read_arrow, unify, write_arrow

_BATCH_ROWS = 1 << 15


class PolarsEngine:
    """Polars: for a log whose ids fit in memory."""

    name = "polars"
    write_part: PartWriter = staticmethod(write_arrow)

    def scan(self, folder: Path) -> Frame:
        """The rows of all files of a folder."""
        files = sorted(folder.glob("*.arrow"))
        if files:
            return nw.from_native(pl.scan_ipc(files, glob=False))
        return nw.from_native(pl.scan_parquet(sorted(folder.glob("*.parquet")), glob=False))

    def materialise(self, frame: Frame, name: str) -> Frame:
        """The same rows, held in memory."""
        return nw.from_native(_collect(frame).lazy())

    def apply(self, frame: Frame, function: BatchFunction, schema: pa.Schema, name: str) -> Frame:
        """What `function` makes of the rows, several batches at a time."""
        rows = _collect(frame)
        batches = list(rows.iter_slices(_BATCH_ROWS)) or [rows]
        with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
            found = pl.concat(list(pool.map(function, batches)))
        return nw.from_native(found.lazy())

    def encode(
        self, frame: Frame, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """Replace texts by their index in the dictionary; one column at a time, to save memory."""
        rows = _collect(frame.drop(*columns))
        encoded = {name: _encode(_collect(frame.select(name)).to_series()) for name in columns}
        return _number(rows, encoded, columns, unordered)

    def scan_encoded(
        self, folder: Path, columns: Mapping[str, str], unordered: Collection[str] = ()
    ) -> tuple[Frame, list[Frame]]:
        """Take up the dictionaries that the files have, so that no row's text is looked at."""
        files = sorted(folder.glob("*.arrow"))
        if not files:
            return self.encode(self.scan(folder), columns, unordered)
        table = read_arrow(files)
        encoded = {name: unify(table[name]) for name in columns}
        return _number(pl.DataFrame(table.drop_columns(list(columns))), encoded, columns, unordered)

    def lookup(self, frame: Frame, table: Frame, key: str) -> Frame:
        """Take the other columns of `table` by index: it lies in the order of its ids."""
        rows, values = _collect(frame), _collect(table)
        added = values.drop(key).select(pl.all().gather(rows[key]))
        return nw.from_native(rows.with_columns(added.get_columns()).lazy())

    def count_with_users(self, frame: Frame, keys: Sequence[str]) -> Frame:
        """Sort ids and user packed into one number, or group where they do not fit into one."""
        tallied = count_packed(_collect(frame.select(*keys, "user_id")), keys, "user_id")
        return (
            count_rows_with_users(frame, keys)
            if tallied is None
            else nw.from_native(tallied.lazy())
        )

    def sort_rows(self, frame: Frame, name: str) -> Rows:
        """The rows sorted in memory, so that an expression over them needs no window."""
        rows = sort_rows(_collect(frame), ["row"], [False])
        return nw.from_native(sort_rows(rows, ["user_id", "time"], [False] * 2), eager_only=True)

    def ordered(self, expression: nw.Expr) -> nw.Expr:
        """The expression itself: the rows lie in order."""
        return expression

    def write(self, frame: Frame, file: Path, schema: pa.Schema, by: Sequence[str]) -> int:
        """Write the rows sorted."""
        rows = sort_rows(_collect(frame), *sort_keys(by)).select(schema.names)
        rows = rows.cast(pl.DataFrame(schema.empty_table()).schema)
        file.parent.mkdir(parents=True, exist_ok=True)
        rows.write_parquet(
            file,
            compression="zstd",
            compression_level=1,
            statistics=False,
            row_group_size=ROW_GROUP,
        )
        return len(rows)

    def side_by_side(self, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
        """Run them in two threads: what one does on a single core leaves others to the other."""
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(second)
            return first(), waiting.result()

    def close(self) -> None:
        """Nothing to give back."""


def _collect(frame: Frame) -> pl.DataFrame:
    native: pl.LazyFrame = frame.to_native()
    return native.collect(engine="streaming")


def _encode(texts: pl.Series) -> pa.DictionaryArray:
    return pa.chunked_array(texts.to_arrow()).dictionary_encode().combine_chunks()


def _number(
    rows: pl.DataFrame,
    encoded: Mapping[str, pa.DictionaryArray],
    columns: Mapping[str, str],
    unordered: Collection[str],
) -> tuple[Frame, list[Frame]]:
    """Rows with the ids of dictionary arrays, and the dictionaries."""
    codes, dictionaries = [], []
    for name, key in columns.items():
        ids = pl.Series(key, encoded[name].indices, dtype=pl.Int32)
        texts = pl.Series(name, encoded[name].dictionary, dtype=pl.String)
        if name not in unordered:
            ids, texts = _in_text_order(ids, texts)
        codes.append(ids)
        index = pl.int_range(len(texts), dtype=pl.Int32, eager=True).alias(key)
        dictionaries.append(nw.from_native(pl.DataFrame([index, texts]).lazy()))
    return nw.from_native(rows.with_columns(codes).lazy()), dictionaries


def _in_text_order(ids: pl.Series, texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    order = texts.arg_sort()
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    return pl.Series(ids.name, ranks).gather(ids), texts.gather(order)

"""Several columns of whole numbers as one: sorting and counting by one number is far quicker.

Knows how wide the columns are and whether 63 bits hold them all; nothing of what they mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

_ROOM = 2**63


@dataclass(frozen=True)
class Field:
    """The values of a column: `size` of them from `low` up, perhaps the highest first."""

    low: int
    size: int
    downwards: bool

    def place(self, name: str) -> pl.Expr:
        """Where the values of a column stand among all, from 0."""
        column = pl.col(name).to_physical().cast(pl.Int64)
        return self.low + self.size - 1 - column if self.downwards else column - self.low


@dataclass(frozen=True)
class Packed:
    """One Int64 a row, which orders the rows as their columns do, the first column first."""

    values: pl.Series
    fields: Mapping[str, Field]


def pack(rows: pl.DataFrame, names: Sequence[str], downwards: Sequence[bool]) -> Packed | None:
    """Pack columns, those `downwards` highest first; None where one number cannot hold them."""
    fields = {}
    room = 1
    for name, down in zip(names, downwards, strict=True):
        column = rows[name].to_physical()
        if not len(column) or not column.dtype.is_integer() or column.null_count():
            return None
        fields[name] = _field(column, down)
        room *= fields[name].size
    if room > _ROOM:
        return None
    packed = pl.lit(0, pl.Int64)
    for name, field in fields.items():
        packed = packed * field.size + field.place(name)
    # Streamed: the steps of the sum stay in the cache.
    values = rows.lazy().select(packed=packed).collect(engine="streaming").to_series()
    return Packed(values, fields)


def _field(column: pl.Series, downwards: bool) -> Field:
    low, high = column.min(), column.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    return Field(low, high - low + 1, downwards)


def sort_rows(rows: pl.DataFrame, names: Sequence[str], downwards: Sequence[bool]) -> pl.DataFrame:
    """Sort rows; those with equal keys keep their order."""
    if len(names) == 1 and not downwards[0] and rows[names[0]].is_sorted():
        return rows
    packed = pack(rows, names, downwards)
    if packed is None:
        return rows.sort(names, descending=list(downwards), maintain_order=True)
    # Logs often come in order, and to look is much quicker than to sort.
    if packed.values.is_sorted():
        return rows
    return rows.with_columns(packed.values).sort("packed", maintain_order=True).drop("packed")


def count_packed(rows: pl.DataFrame, keys: Sequence[str], user: str) -> pl.DataFrame | None:
    """`count` of rows and of different `users` by keys; None where one number cannot hold them."""
    names = (*keys, user)
    packed = pack(rows, names, [False] * len(names))
    if packed is None:
        return None
    # Columns of this length are let go as soon as they have served: they decide the peak of memory.
    fields, pairs = packed.fields, packed.values.sort()
    del packed
    fresh = (pairs != pairs.shift(1)).fill_null(True)
    key = pairs // fields[user].size
    del pairs
    # Equal keys lie together: their runs are as long as they have rows, or different pairs.
    by_row = key.rle().struct.unnest()
    by_pair = key.filter(fresh).rle().struct.unnest()
    counts = by_row.select(
        key="value", count=pl.col("len").cast(pl.Int64), users=by_pair["len"].cast(pl.Int64)
    )
    return _unpack(counts, fields, keys).cast({key: rows.schema[key] for key in keys})


def _unpack(rows: pl.DataFrame, fields: Mapping[str, Field], names: Sequence[str]) -> pl.DataFrame:
    """Take the columns `names` out of the number that is their `key`."""
    for name in reversed(names):
        field = fields[name]
        column = (pl.col("key") % field.size + field.low).alias(name)
        rows = rows.with_columns(column, key=pl.col("key") // field.size)
    return rows.drop("key")

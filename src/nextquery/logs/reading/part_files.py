"""Parts of the canonical table on their way from the reader to an engine.

Parquet is what every engine reads. Arrow files keep user, query and click as a dictionary and
numbers, so that whoever takes them up need not look at the text of every row again. Both are read
once and thrown away: quick to write matters more than small.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import polars as pl
import pyarrow as pa

PartWriter: TypeAlias = Callable[[pl.DataFrame, Path], None]
"""Writes rows to a file whose name it completes."""

_REPEATING = ("user", "query", "click")


def write_parquet(rows: pl.DataFrame, file: Path) -> None:
    """Write a part as `file`.parquet."""
    rows.write_parquet(file.with_suffix(".parquet"), compression="uncompressed", statistics=False)


def write_arrow(rows: pl.DataFrame, file: Path) -> None:
    """Write a part as `file`.arrow, texts that repeat as a dictionary and numbers."""
    table = rows.to_arrow()
    for place, name in enumerate(table.column_names):
        if name in _REPEATING:
            table = table.set_column(place, name, table[name].dictionary_encode())
    with pa.ipc.new_file(file.with_suffix(".arrow"), table.schema) as writer:
        writer.write_table(table)


def read_arrow(files: Sequence[Path]) -> pa.Table:
    """The parts as one table in the order of the rows; each part still has its dictionaries."""
    tables = []
    for file in files:
        with pa.memory_map(str(file)) as source:
            tables.append(pa.ipc.open_file(source).read_all())
    return pa.concat_tables(tables)


def unify(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """The column with one dictionary for all parts, in the order in which texts first appear."""
    return column.unify_dictionaries().combine_chunks()

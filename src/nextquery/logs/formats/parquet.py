"""Parquet logs: batches of typed columns become accepted and rejected rows.

The columns may be text, bytes, numbers or times; a row's number stands in for the line that it does
not have. Repeated texts stay a dictionary until a batch of bounded size is taken out, so that a
small file that unpacks to a large one costs no more memory than any other.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from nextquery.errors import LogError
from nextquery.logs.formats.base import FileBlock, LogFormat, find_columns
from nextquery.logs.reading import rejects
from nextquery.logs.reading.lines import BLOCK_BYTES, LONGEST_LINE
from nextquery.logs.reading.open import Sample, check_file
from nextquery.logs.reading.rows import ParsedRows, cast_to_text, validate_rows
from nextquery.logs.reading.times import parse_times, resolve_times
from nextquery.logs.settings import ReadSettings

_BATCH_ROWS = 100_000
_NO_TEXT = pl.lit(None, pl.String)
_LARGEST_CHUNK, _LARGEST_RATIO = 256 << 20, 1000
"""A column of a row group that unpacks to more bytes than both allow is refused."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LATEST_SECOND = 2**33  # the year 2242: what lies beyond is out of range, whatever it is


class ParquetFormat(LogFormat):
    """One row per row of the table."""

    name = "parquet"
    takes_columns = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """The mark at the start of the file."""
        marked = sample.start.startswith(b"PAR1")
        return "it starts with the mark of a Parquet file" if marked else None

    def blocks(self, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """Batches of rows."""
        size = sample.file.stat().st_size
        for share, batch in read_batches(sample.file, settings.columns):
            parse = partial(parse_batch, batch, settings.time_zone)
            yield FileBlock(len(batch), int(size * share), parse)


def read_batches(
    path: Path, columns: Mapping[str, str] | None
) -> Iterator[tuple[float, pl.DataFrame]]:
    """The wanted columns by their meaning (user, time, query, click) and the row as `line`.

    With each batch comes the share of the file that has been read with it.
    """
    for share, frame in read_parts(path, _record_batches(path, columns)):
        yield share, frame if "click" in frame.columns else frame.with_columns(click=_NO_TEXT)


def read_parts(
    path: Path, batches: Iterator[tuple[int, pa.RecordBatch]]
) -> Iterator[tuple[float, pl.DataFrame]]:
    """Batches of a file (each with the number of all rows) in bounded parts, numbered by `line`."""
    check_file(path)
    try:
        first = 1
        for total, batch in batches:
            for part in _bounded(batch):
                frame = _as_frame(part, first)
                first += part.num_rows
                yield min(1.0, (first - 1) / max(total, 1)), frame
    except (OSError, ValueError, LookupError, MemoryError, pa.ArrowException) as error:
        reason = "".join(filter(str.isprintable, str(error)))[:200] or type(error).__name__
        raise LogError(f"{path}: cannot be read as Parquet ({reason})") from None


def _record_batches(
    path: Path, columns: Mapping[str, str] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with columns called by their meaning; texts are dictionaries still."""
    import pyarrow.parquet as pq  # not loaded for logs of other formats

    with pa.OSFile(os.fsencode(path), "rb") as source:
        schema = pq.read_schema(source)
        wanted = find_columns(path, columns, schema.names)
        _check_types(path, schema, wanted)
        names = sorted(set(wanted.values()))
        texts = [name for name in names if is_text(schema.field(name).type)]
        for total, batch in iterate_batches(path, source, names, texts):
            chosen = [batch.column(name) for name in wanted.values()]
            yield total, pa.record_batch(chosen, list(wanted))


def iterate_batches(
    path: Path, source: Any, names: Sequence[str], texts: Sequence[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Some columns of an open file, `texts` as dictionaries, and the number of all rows."""
    import pyarrow.parquet as pq  # not loaded for logs of other formats

    with pq.ParquetFile(source, read_dictionary=texts, pre_buffer=False) as file:
        rows = _rows_per_batch(path, file.metadata, names)
        for batch in file.iter_batches(rows, columns=names):
            yield file.metadata.num_rows, batch


def _rows_per_batch(path: Path, metadata: Any, names: Iterable[str]) -> int:
    """How many rows make up a block, by the size that the file states for its columns."""
    widest = 1.0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(index) for index in range(group.num_columns)]
        sizes = [chunk for chunk in chunks if _belongs(chunk.path_in_schema, names)]
        for chunk in sizes:
            unpacked, packed = chunk.total_uncompressed_size, max(1, chunk.total_compressed_size)
            if unpacked > _LARGEST_CHUNK and unpacked > _LARGEST_RATIO * packed:
                raise LogError(
                    f"{path}: column {chunk.path_in_schema!r} unpacks to {unpacked:,} bytes from "
                    f"{packed:,}; that is no log"
                )
        size = sum(chunk.total_uncompressed_size for chunk in sizes)
        widest = max(widest, size / max(1, group.num_rows))
    return int(min(_BATCH_ROWS, max(1, 4 * BLOCK_BYTES / widest)))


def _belongs(path: str, names: Iterable[str]) -> bool:
    """Whether a column of the file is one of `names` or a part of one."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in parts whose texts are together no more than a block of bytes."""
    sizes = sum((_byte_lengths(column) for column in batch.columns), np.zeros(batch.num_rows))
    block = np.floor(np.cumsum(sizes) / BLOCK_BYTES)
    cuts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(cuts):
        if start < end:
            yield batch.slice(start, end - start)


def _byte_lengths(column: pa.Array) -> Any:
    if pa.types.is_dictionary(column.type):
        if not is_text(column.type.value_type):
            return np.zeros(len(column))
        lengths = pc.binary_length(column.dictionary).take(column.indices)
    elif is_text(column.type):
        lengths = pc.binary_length(column)
    else:
        return np.zeros(len(column))
    return lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(float)


def parse_batch(batch: pl.DataFrame, time_zone: str) -> ParsedRows:
    """Take or reject every row of a batch."""
    user, malformed_user = cast_to_text(batch["user"])
    query, malformed_query = cast_to_text(batch["query"])
    click, malformed_click = cast_to_text(batch["click"])
    time_text = cast_to_text(batch["time"])[0].alias("time_text")
    shown = pl.concat_str("user", "time_text", "query", separator="\t", ignore_nulls=True)
    fault = (
        pl.when(pl.sum_horizontal(pl.col("user", "query", "click").str.len_bytes()) > LONGEST_LINE)
        .then(pl.lit(rejects.TOO_LONG))
        .when(malformed_user | malformed_query | malformed_click)
        .then(pl.lit(rejects.MALFORMED_TEXT))
        .when(shown.str.contains("\0", literal=True))
        .then(pl.lit(rejects.NUL_BYTE))
    )
    fields = pl.DataFrame([batch["line"], user, query, click, time_text])
    times = read_times(batch["time"], time_text, time_zone)
    return validate_rows(fields.with_columns(text=shown, reason=fault), times)


def _check_types(path: Path, schema: pa.Schema, wanted: Mapping[str, str]) -> None:
    for meaning, name in wanted.items():
        found = schema.field(name).type
        plain = found.value_type if pa.types.is_dictionary(found) else found
        if not (is_value(plain) or (meaning == "time" and _is_moment(plain))):
            kinds = "text, numbers or times" if meaning == "time" else "text or numbers"
            raise LogError(f"{path}: column {name!r} is a {found}; {meaning} must be {kinds}")


def is_text(kind: pa.DataType) -> bool:
    """Whether a type of Arrow holds texts or bytes."""
    types = pa.types
    string = types.is_string(kind) or types.is_large_string(kind)
    bytes_ = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(string or bytes_ or types.is_fixed_size_binary(kind))


def is_value(kind: pa.DataType) -> bool:
    """Whether a type of Arrow holds texts or numbers."""
    types = pa.types
    number = types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind)
    return is_text(kind) or number or types.is_boolean(kind) or types.is_null(kind)


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _as_frame(batch: pa.RecordBatch, first: int) -> pl.DataFrame:
    columns = [_decoded(column) for column in batch.columns]
    frame = pl.DataFrame(pa.record_batch(columns, batch.schema.names))
    return frame.with_row_index("line", first).cast({"line": pl.Int64})


def _decoded(column: pa.Array) -> pa.Array:
    """A column without dictionary, and times in microseconds, without a zone or in UTC."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pa.types.is_timestamp(column.type):
        return column
    # What Polars has no name for is a zone, too, such as +05:30; the numbers are UTC anyway.
    most = _LATEST_SECOND * _PER_SECOND[column.type.unit]
    numbers = pc.max_element_wise(
        pc.min_element_wise(column.cast(pa.int64()), most, skip_nulls=False),
        -most,
        skip_nulls=False,
    )
    zone = None if column.type.tz is None else "UTC"
    known = numbers.cast(pa.timestamp(column.type.unit, zone))
    return known.cast(pa.timestamp("us", zone), safe=False)


def read_times(times: pl.Series, texts: pl.Series, time_zone: str) -> pl.DataFrame:
    """Times of any type as `parse_times` gives them."""
    if not isinstance(times.dtype, pl.Datetime):
        return parse_times(texts, time_zone)
    nothing = pl.repeat(None, len(times), dtype=pl.Datetime("us"), eager=True)
    if times.dtype.time_zone is None:
        return resolve_times(times, nothing, time_zone)
    return resolve_times(nothing, times.dt.replace_time_zone(None), time_zone)

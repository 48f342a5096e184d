"""Parquet logs: batches of typed columns become accepted and rejected rows.

The columns may be strings, numbers, times or bytes; a row's number stands in for the line that it
does not have.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from nextquery.errors import LogError
from nextquery.logs.formats.base import FileBlock, LogFormat
from nextquery.logs.formats.columns import find_columns
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.rows import ParsedRows, cast_to_text, validate_rows
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.reading.times import parse_times, resolve_times

_BATCH_ROWS = 100_000


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
    import pyarrow.parquet as pq  # not loaded for logs of other formats

    try:
        with pq.ParquetFile(path) as file:
            wanted = find_columns(path, columns, file.schema_arrow.names)
            _check_types(path, file.schema_arrow, wanted.values())
            first = 1
            for batch in file.iter_batches(_BATCH_ROWS, columns=sorted(set(wanted.values()))):
                frame = _by_meaning(batch, wanted, first)
                first += batch.num_rows
                yield (first - 1) / file.metadata.num_rows, frame
    except (OSError, pa.ArrowException) as error:
        raise LogError(f"{path}: cannot be read as Parquet ({error})") from None


def parse_batch(batch: pl.DataFrame, time_zone: str) -> ParsedRows:
    """Take or reject every row of a batch."""
    user, malformed_user = cast_to_text(batch["user"])
    query, malformed_query = cast_to_text(batch["query"])
    click, _ = cast_to_text(batch["click"])
    time_text = batch["time"].cast(pl.String).alias("time_text")
    shown = pl.concat_str("user", "time_text", "query", separator="\t", ignore_nulls=True)
    fault = (
        pl.when(malformed_user | malformed_query)
        .then(pl.lit(rejected_rows.MALFORMED_TEXT))
        .when(shown.str.contains("\0", literal=True))
        .then(pl.lit(rejected_rows.NUL_BYTE))
    )
    fields = pl.DataFrame([batch["line"], user, query, click, time_text])
    times = _times(batch["time"], time_text, time_zone)
    return validate_rows(fields.with_columns(text=shown, reason=fault), times)


def _check_types(path: Path, schema: Any, names: Iterable[str]) -> None:
    for name in names:
        if pa.types.is_nested(schema.field(name).type):
            raise LogError(f"{path}: column {name!r} is a {schema.field(name).type}, not a value")


def _by_meaning(batch: Any, wanted: Mapping[str, str], first: int) -> pl.DataFrame:
    frame = pl.DataFrame(batch)
    columns = [pl.col(name).alias(meaning) for meaning, name in wanted.items()]
    if "click" not in wanted:
        columns.append(pl.lit(None, pl.String).alias("click"))
    return frame.select(columns).with_row_index("line", first).cast({"line": pl.Int64})


def _times(times: pl.Series, texts: pl.Series, time_zone: str) -> pl.DataFrame:
    if not isinstance(times.dtype, pl.Datetime):
        return parse_times(texts, time_zone)
    nothing = pl.repeat(None, len(times), dtype=pl.Datetime("us"), eager=True)
    if times.dtype.time_zone is None:
        return resolve_times(times.dt.cast_time_unit("us"), nothing, time_zone)
    utc = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None).dt.cast_time_unit("us")
    return resolve_times(nothing, utc, time_zone)

"""OpenSearch User Behavior Insights 1.3, as NDJSON and as Parquet."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import cast

import polars as pl

from nextquery.logs.formats.base import FileBlock, JoinedFormat, read_line_blocks, stage
from nextquery.logs.formats.json import extract_fields, sample_paths
from nextquery.logs.formats.parquet import (
    PARQUET_MAGIC,
    FileColumns,
    Footer,
    is_text,
    is_value,
    read_footer,
    read_parts,
    read_times,
)
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import LONGEST_LINE, LineBlock, LogFile, Sample
from nextquery.logs.reading.rows import ParsedRows, cast_to_text, decode_lines, validate_rows
from nextquery.logs.reading.times import parse_times
from nextquery.logs.settings import ReadSettings

_TIME = "time_text"


def column_names(path: Path) -> set[str]:
    """The names of a Parquet file's columns; none if it cannot be read."""
    try:
        return set(read_footer(path).names)
    except (OSError, ValueError):
        return set()


def read_fields(path: Path, paths: Mapping[str, str]) -> Iterator[tuple[float, pl.DataFrame]]:
    """Rows of texts and reasons as `extract_fields` gives them, and the share read so far.

    `time` has the times as they are in the file, next to their text.
    """

    def choose(footer: Footer, schema: pl.Schema) -> FileColumns:
        """One column for each field that the file has, under the field's name or `name:path`."""
        columns = {}
        for field, choices in paths.items():
            column, path_inside = _find(schema, choices.split("|"), field == _TIME)
            if column is not None:
                columns[f"{field}:{path_inside}" if path_inside else field] = column
        return columns

    for share, frame in read_parts(path, choose):
        yield share, _as_fields(frame, paths)


def _find(schema: pl.Schema, choices: list[str], is_time: bool) -> tuple[pl.Expr | None, str]:
    """The first column with values, or times where they are wanted; and a path in its JSON."""
    for choice in choices:
        if choice in schema:
            kind = schema[choice]
            if is_value(kind) or (is_time and kind.is_temporal()):
                return pl.col(choice), ""
        top, *rest = choice.split(".")
        if not rest or top not in schema:
            continue
        kind = schema[top]
        if is_text(kind):
            return pl.col(top), "|".join(choice.partition(".")[2] for choice in choices)
        column = pl.col(top)
        for name in rest:
            column = column.struct.field(name)
            fields = dict(kind.to_schema()) if isinstance(kind, pl.Struct) else {}
            kind = cast(pl.DataType, fields.get(name, pl.Null()))
        if is_value(kind) and kind != pl.Null:
            return column, ""
    return None, ""


def _as_fields(frame: pl.DataFrame, paths: Mapping[str, str]) -> pl.DataFrame:
    columns, malformed = [frame["line"]], pl.repeat(False, len(frame), eager=True)
    for name in frame.columns[1:]:
        text, bad = cast_to_text(frame[name])
        columns.append(text)
        malformed |= bad
    texts = pl.DataFrame(columns)
    names = sorted(texts.columns[1:])
    shown = pl.concat_str(pl.col(names), separator="\t", ignore_nulls=True) if names else pl.lit("")
    texts = texts.with_columns(text=shown)
    for name in names:
        field, _, path = name.partition(":")
        if path:
            lines = pl.DataFrame({"text": texts[name].fill_null("{}")})
            lines = lines.with_columns(reason=pl.lit(None, pl.String))
            values = extract_fields(lines, {field: path})[field]
            texts = texts.with_columns(values).drop(name)
    absent = [pl.lit(None, pl.String).alias(name) for name in paths if name not in texts.columns]
    times = (
        frame[_TIME] if _TIME in frame.columns else pl.Series([None] * len(frame), dtype=pl.String)
    )
    fault = (
        pl.when(pl.col("text").str.len_bytes() > LONGEST_LINE)
        .then(pl.lit(rejects.TOO_LONG))
        .when(malformed)
        .then(pl.lit(rejects.MALFORMED_TEXT))
        .when(pl.col("text").str.contains("\0", literal=True))
        .then(pl.lit(rejects.NUL_BYTE))
    )
    return texts.with_columns(*absent, time=times, reason=fault)


_PATHS = {
    "user": "client_id",
    "time_text": "timestamp",
    "query": "user_query",
    "query_id": "query_id",
    "action": "action_name",
    "click": "event_attributes.object.object_id|event_attributes.object.internal_id",
}
_CLICK = "(^|_)click(_through)?$"


class UbiFormat(JoinedFormat):
    """One query or event per line of JSON or row of Parquet, in any file and order."""

    name = "ubi"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the fields of a query or of an event."""
        if settings.columns:
            return None
        if _is_parquet(sample):
            kind, paths = "it is a Parquet file", column_names(sample.file)
        else:
            kind, paths = "its lines are JSON objects", sample_paths(sample)
        for columns in (("user_query", "client_id"), ("action_name", "query_id")):
            if paths.issuperset(columns):
                return f"{kind} with {' and '.join(columns)}"
        return None

    def blocks(self, file: LogFile, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The lines or batches of the file."""
        if not _is_parquet(sample):
            parse_lines = partial(_parse_block, settings.time_zone)
            yield from read_line_blocks(file, parse_lines, settings.encoding)
            return
        size = sample.file.stat().st_size
        for share, fields in read_fields(sample.file, _PATHS):
            parse = partial(_parse_fields, fields, settings.time_zone)
            yield FileBlock(len(fields), int(size * share), parse)


def _parse_block(time_zone: str, block: LineBlock) -> ParsedRows:
    fields = extract_fields(decode_lines(block.frame()), _PATHS)
    return _divide(fields, parse_times(fields["time_text"], time_zone))


def _parse_fields(fields: pl.DataFrame, time_zone: str) -> ParsedRows:
    times = read_times(fields["time"], fields["time_text"], time_zone)
    return _divide(fields.drop("time"), times)


def _is_parquet(sample: Sample) -> bool:
    return sample.start.startswith(PARQUET_MAGIC)


def _divide(fields: pl.DataFrame, times: pl.DataFrame) -> ParsedRows:
    """Tell queries from events; accepted rows have a `query_id`, and a click if they are one."""
    is_event = pl.col("action").is_not_null()
    dated = fields.with_columns(times)
    searches = dated.filter(~is_event).with_columns(click=pl.lit(None, pl.String))
    queries = validate_rows(searches.drop("time", "fault"), searches.select("time", "fault"))
    is_click = pl.col("action").str.to_lowercase().str.contains(_CLICK)
    reason = pl.coalesce(
        "reason",
        pl.when(~is_click).then(pl.lit(rejects.NOT_A_CLICK)),
        pl.when(pl.col("query_id").is_null()).then(pl.lit(rejects.NO_QUERY_ID)),
        pl.when(pl.col("click").is_null()).then(pl.lit(rejects.NO_OBJECT)),
    )
    return stage(queries, dated.filter(is_event).with_columns(reason))

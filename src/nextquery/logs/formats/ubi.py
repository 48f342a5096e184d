"""OpenSearch User Behavior Insights 1.3, as NDJSON and as Parquet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import polars as pl

from nextquery.logs.engines.base import Engine
from nextquery.logs.formats.base import (
    STAGED_COLUMNS,
    FileBlock,
    JoinedFormat,
    JoinedRows,
    join_clicks,
    read_line_blocks,
    stage_clicks,
    stage_queries,
)
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
from nextquery.logs.reading.rows import (
    ParsedRows,
    cast_to_text,
    decode_lines,
    describe_rejected,
    validate_rows,
)
from nextquery.logs.reading.times import parse_times
from nextquery.logs.settings import ReadSettings

_TIME = "time_text"


@dataclass(frozen=True)
class _Position:
    """Where a field is: nested columns, and perhaps a path in the JSON of the last."""

    columns: tuple[str, ...]
    inside: str = ""

    def column(self) -> pl.Expr:
        """The values of the field."""
        column = pl.col(self.columns[0])
        for name in self.columns[1:]:
            column = column.struct.field(name)
        return column


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
            position = _find(schema, choices.split("|"), field == _TIME)
            if position:
                name = f"{field}:{position.inside}" if position.inside else field
                columns[name] = position.column()
        return columns

    for share, frame in read_parts(path, choose):
        yield share, _as_fields(frame, paths)


def _find(schema: pl.Schema, choices: list[str], is_time: bool) -> _Position | None:
    """The first position of a value, or of a time where one is wanted."""
    for choice in choices:
        if choice in schema:
            kind = schema[choice]
            if is_value(kind) or (is_time and kind.is_temporal()):
                return _Position((choice,))
        top, *rest = choice.split(".")
        if not rest or top not in schema:
            continue
        kind = schema[top]
        if is_text(kind):
            return _Position((top,), "|".join(choice.partition(".")[2] for choice in choices))
        for name in rest:
            fields = dict(kind.to_schema()) if isinstance(kind, pl.Struct) else {}
            kind = cast(pl.DataType, fields.get(name, pl.Null()))
        if is_value(kind) and kind != pl.Null:
            return _Position((top, *rest))
    return None


def _as_fields(frame: pl.DataFrame, paths: Mapping[str, str]) -> pl.DataFrame:
    columns, malformed = [frame["line"]], pl.repeat(False, len(frame), eager=True)
    for name in frame.columns[1:]:
        text, bad = cast_to_text(frame[name])
        columns.append(text)
        malformed |= bad
    texts = pl.DataFrame(columns)
    given = set(texts.columns[1:])
    texts = texts.with_columns(
        text=pl.concat_str(pl.col(sorted(given)), separator="\t", ignore_nulls=True)
        if given
        else pl.lit("")
    )
    for name in sorted(given):
        field, _, inside = name.partition(":")
        if inside:
            texts = texts.with_columns(_in_json(texts[name], field, inside)).drop(name)
    absent = [pl.lit(None, pl.String).alias(name) for name in paths if name not in texts.columns]
    times = (
        frame[_TIME] if _TIME in frame.columns else pl.Series([None] * len(frame), dtype=pl.String)
    )
    return texts.with_columns(*absent, time=times, reason=_fault(malformed))


def _in_json(texts: pl.Series, field: str, paths: str) -> pl.Series:
    lines = pl.DataFrame({"text": texts.fill_null("{}")}).with_columns(
        reason=pl.lit(None, pl.String)
    )
    return extract_fields(lines, {field: paths})[field]


def _fault(malformed: pl.Series) -> pl.Expr:
    return (
        pl.when(pl.col("text").str.len_bytes() > LONGEST_LINE)
        .then(pl.lit(rejects.TOO_LONG))
        .when(malformed)
        .then(pl.lit(rejects.MALFORMED_TEXT))
        .when(pl.col("text").str.contains("\0", literal=True))
        .then(pl.lit(rejects.NUL_BYTE))
    )


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
    staged_columns = STAGED_COLUMNS

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the fields of a query or of an event."""
        if settings.columns:
            return None
        paths = column_names(sample.file) if _is_parquet(sample) else sample_paths(sample)
        kind = "it is a Parquet file" if _is_parquet(sample) else "its lines are JSON objects"
        for columns in (("user_query", "client_id"), ("action_name", "query_id")):
            if paths.issuperset(columns):
                return f"{kind} with {' and '.join(columns)}"
        return None

    def blocks(self, file: LogFile, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The lines or batches of the file."""
        if _is_parquet(sample):
            return _parquet_blocks(sample.file, settings.time_zone)
        parse = partial(_parse_block, settings.time_zone)
        return read_line_blocks(file, parse, settings.encoding)

    def join(self, engine: Engine, staged: Path, rows: Path) -> JoinedRows:
        """Write the staged queries, each followed by its clicks."""
        return join_clicks(engine, staged, rows)


def _parse_block(time_zone: str, block: LineBlock) -> ParsedRows:
    return parse_ubi(block.frame(), time_zone)


def parse_ubi(lines: pl.DataFrame, time_zone: str) -> ParsedRows:
    """Tell queries from events; accepted rows have a `query_id`, and a click if they are one."""
    fields = extract_fields(decode_lines(lines), _PATHS)
    return _divide(fields, parse_times(fields["time_text"], time_zone))


def _parquet_blocks(path: Path, time_zone: str) -> Iterator[FileBlock]:
    size = path.stat().st_size
    for share, fields in read_fields(path, _PATHS):
        yield FileBlock(len(fields), int(size * share), partial(_parse_fields, fields, time_zone))


def _parse_fields(fields: pl.DataFrame, time_zone: str) -> ParsedRows:
    times = read_times(fields["time"], fields["time_text"], time_zone)
    return _divide(fields.drop("time"), times)


def _is_parquet(sample: Sample) -> bool:
    return sample.start.startswith(PARQUET_MAGIC)


def _divide(fields: pl.DataFrame, times: pl.DataFrame) -> ParsedRows:
    is_event = pl.col("action").is_not_null()
    dated = fields.with_columns(times)
    searches = dated.filter(~is_event).with_columns(click=pl.lit(None, pl.String))
    queries = validate_rows(searches.drop("time", "fault"), searches.select("time", "fault"))
    events = _validate_events(dated.filter(is_event))
    return ParsedRows(
        pl.concat([stage_queries(queries.accepted), events.accepted]).sort("line"),
        pl.concat([queries.rejected, events.rejected]).sort("line"),
    )


def _validate_events(events: pl.DataFrame) -> ParsedRows:
    is_click = pl.col("action").str.to_lowercase().str.contains(_CLICK)
    marked = events.with_columns(
        pl.coalesce(
            "reason",
            pl.when(~is_click).then(pl.lit(rejects.NOT_A_CLICK)),
            pl.when(pl.col("query_id").is_null()).then(pl.lit(rejects.NO_QUERY_ID)),
            pl.when(pl.col("click").is_null()).then(pl.lit(rejects.NO_OBJECT)),
        )
    )
    clicks = stage_clicks(marked.filter(pl.col("reason").is_null()))
    return ParsedRows(clicks, describe_rejected(marked.filter(pl.col("reason").is_not_null())))

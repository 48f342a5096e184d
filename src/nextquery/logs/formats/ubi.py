"""OpenSearch User Behavior Insights 1.3: queries and the clicks on their results.

Rows with an `action_name` are events, all others are queries; which file they stand in, and
whether that is NDJSON or Parquet, does not matter. A click has no query text of its own: it is
staged with its `query_id` and becomes a row with the user, time and text of that query, right after
the query's own row, as in the AOL log.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl

from nextquery.logs.formats.base import FileBlock, JoinedFormat, JoinedRows, read_line_blocks
from nextquery.logs.formats.clicks import (
    STAGED_COLUMNS,
    join_clicks,
    stage_clicks,
    stage_queries,
)
from nextquery.logs.formats.layouts.json_fields import extract_fields, sample_paths
from nextquery.logs.formats.parquet import read_times
from nextquery.logs.formats.ubi_parquet import column_names, read_fields
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.lines import LineBlock
from nextquery.logs.reading.rows import (
    ParsedRows,
    decode_lines,
    describe_rejected,
    validate_rows,
)
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.reading.times import parse_times

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
        for wanted in (("user_query", "client_id"), ("action_name", "query_id")):
            if paths.issuperset(wanted):
                return f"{kind} with {' and '.join(wanted)}"
        return None

    def blocks(self, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The lines or batches of the file."""
        if _is_parquet(sample):
            return _parquet_blocks(sample.file, settings.time_zone)
        return read_line_blocks(sample.file, partial(_parse_block, settings.time_zone))

    def join(self, staged: Path, rows: Path) -> JoinedRows:
        """Write the staged queries, each followed by its clicks."""
        return join_clicks(staged, rows)


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
    return sample.start.startswith(b"PAR1")


def _divide(fields: pl.DataFrame, times: pl.DataFrame) -> ParsedRows:
    is_event = pl.col("action").is_not_null()
    dated = fields.with_columns(times)
    asked = dated.filter(~is_event).with_columns(click=pl.lit(None, pl.String))
    queries = validate_rows(asked.drop("time", "fault"), asked.select("time", "fault"))
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
            pl.when(~is_click).then(pl.lit(rejected_rows.NOT_A_CLICK)),
            pl.when(pl.col("query_id").is_null()).then(pl.lit(rejected_rows.NO_QUERY_ID)),
            pl.when(pl.col("click").is_null()).then(pl.lit(rejected_rows.NO_OBJECT)),
        )
    )
    clicks = stage_clicks(marked.filter(pl.col("reason").is_null()))
    return ParsedRows(clicks, describe_rejected(marked.filter(pl.col("reason").is_not_null())))

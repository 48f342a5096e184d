"""OpenSearch User Behavior Insights 1.3: queries and the clicks on their results.

Lines with an `action_name` are events, all others are queries; which file they stand in does not
matter. A click has no query text of its own: it is staged with its `query_id` and becomes a row
with the user, time and text of that query, right after the query's own row, as in the AOL log.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl

from nextquery.logs.formats.base import FileBlock, JoinedFormat, JoinedRows, read_line_blocks
from nextquery.logs.formats.json_fields import extract_fields, sample_paths
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.lines import LineBlock
from nextquery.logs.reading.rows import (
    CANONICAL,
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


# A query_id that was logged twice (a second page of results, say) has its clicks on the first.
_QUERIES = """
    CREATE VIEW queries AS FROM staged WHERE click IS NULL;
    CREATE VIEW clicks AS FROM staged WHERE click IS NOT NULL;
    CREATE VIEW first_queries AS FROM queries WHERE query_id IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY query_id ORDER BY row) = 1;
"""
_ROWS = """
    SELECT user, time, query, click,
           row_number() OVER (ORDER BY query_row, click IS NOT NULL, row) AS row
    FROM (
        SELECT user, time, query, click, row, row AS query_row FROM queries
        UNION ALL
        SELECT q.user, q.time, q.query, c.click, c.row, q.row
        FROM clicks AS c JOIN first_queries AS q USING (query_id)
    )
    ORDER BY row
"""
_UNKNOWN = f"""
    SELECT file, line, '{rejected_rows.UNKNOWN_QUERY}' AS reason, query_id[:60] AS excerpt
    FROM clicks ANTI JOIN first_queries USING (query_id)
    ORDER BY row
"""


class UbiFormat(JoinedFormat):
    """One query or event per line, in any file and order."""

    name = "ubi"
    # Staged rows also keep where they stood, to be named if their query is unknown.
    staged_columns = (*CANONICAL, "query_id", "file", "line")

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the fields of a query or of an event."""
        paths = set() if settings.columns else sample_paths(sample)
        for wanted in (("user_query", "client_id"), ("action_name", "query_id")):
            if paths.issuperset(wanted):
                return f"its lines are JSON objects with {' and '.join(wanted)}"
        return None

    def blocks(self, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The lines of the file."""
        return read_line_blocks(sample.file, partial(_parse_block, settings.time_zone))

    def join(self, staged: Path, rows: Path) -> JoinedRows:
        """Write the staged queries, each followed by its clicks; spills to disk if large."""
        import duckdb  # not loaded for logs of other formats

        with duckdb.connect() as base:
            base.execute(f"SET memory_limit = '512MB'; SET temp_directory = {_literal(staged)}")
            files = ", ".join(map(_literal, sorted(staged.glob("part-*.parquet"))))
            base.execute(f"CREATE VIEW staged AS FROM read_parquet([{files}])")
            base.execute(_QUERIES)
            written = base.execute(f"COPY ({_ROWS}) TO {_literal(rows / 'part-00000.parquet')}")
            return JoinedRows(written.fetchall()[0][0], base.sql(_UNKNOWN).pl())


def _parse_block(time_zone: str, block: LineBlock) -> ParsedRows:
    return parse_ubi(block.frame(), time_zone)


def parse_ubi(lines: pl.DataFrame, time_zone: str) -> ParsedRows:
    """Tell queries from events; accepted rows have a `query_id`, and a click if they are one."""
    fields = extract_fields(decode_lines(lines), _PATHS)
    is_event = pl.col("action").is_not_null()
    asked = fields.filter(~is_event).with_columns(click=pl.lit(None, pl.String))
    queries = validate_rows(asked, parse_times(asked["time_text"], time_zone))
    events = _validate_events(fields.filter(is_event))
    return ParsedRows(
        pl.concat([queries.accepted.drop("action"), events.accepted]).sort("line"),
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
    empty = pl.lit(None, pl.String)
    clicks = marked.filter(pl.col("reason").is_null()).select(
        "line",
        empty.alias("user"),
        empty.alias("query"),
        "query_id",
        "click",
        pl.lit(None, pl.Datetime("us")).alias("time"),
    )
    return ParsedRows(clicks, describe_rejected(marked.filter(pl.col("reason").is_not_null())))


def _literal(path: Path) -> str:
    escaped = str(path).replace("'", "''")
    return f"'{escaped}'"

"""Clicks that name a query by its id: staged apart, then put right after their query.

What the formats share whose clicks carry no text of their own (UBI, Algolia).
"""

from pathlib import Path
from typing import Any

import polars as pl

from nextquery.logs.formats.base import JoinedRows
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.rows import CANONICAL, with_owner

STAGED_COLUMNS = (*CANONICAL, "query_id", "file", "line")
"""Staged rows also keep where they stood, to be named if their query is unknown."""
_STAGED_FIELDS = ("line", "user", "query", "query_id", "click", "time")
_LONGEST_TEXT = 4000
"""Characters of a field that are staged: the join holds thousands of rows at once, and a query a
quarter as long is dropped for its length."""

_NOTHING = "SELECT row FROM staged WHERE false"
# A query_id that was logged twice (a second page of results, say) has its clicks on the first.
_QUERIES = """
    CREATE VIEW queries AS FROM staged WHERE click IS NULL AND row NOT IN (FROM left_out);
    CREATE VIEW clicks AS FROM staged WHERE click IS NOT NULL;
    CREATE VIEW first_queries AS FROM queries WHERE query_id IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY query_id ORDER BY row) = 1;
"""
_ROWS = """
    SELECT user, time, query, click, row AS place,
           row_number() OVER (ORDER BY query_row, click IS NOT NULL, row) AS row
    FROM (
        SELECT user, time, query, click, row, row AS query_row FROM queries
        UNION ALL
        SELECT q.user, q.time, q.query, c.click, c.row, q.row
        FROM clicks AS c JOIN first_queries AS q USING (query_id)
    )
    ORDER BY query_row, click IS NOT NULL, place
"""
_REJECTED = f"""
    SELECT file, line, reason, excerpt, place, user, time FROM (
        SELECT file, line, '{rejected_rows.UNKNOWN_QUERY}' AS reason, query_id[:60] AS excerpt,
               row AS place, user, time
        FROM clicks ANTI JOIN first_queries USING (query_id)
        UNION ALL
        SELECT file, line, '{rejected_rows.TYPED_FURTHER}', query[:60], row, user, time
        FROM staged WHERE row IN (FROM left_out)
    )
    ORDER BY place
"""


def stage_queries(queries: pl.DataFrame) -> pl.DataFrame:
    """Accepted rows of queries as they are staged."""
    return queries.select(_STAGED_FIELDS).with_columns(pl.col(pl.String).str.head(_LONGEST_TEXT))


def stage_clicks(clicks: pl.DataFrame) -> pl.DataFrame:
    """Rows of clicks (line, query_id, click) as they are staged: without text.

    User and time, where they are known, serve only to find rows again that could not be joined.
    """
    return stage_queries(with_owner(clicks).with_columns(query=pl.lit(None, pl.String)))


def join_clicks(staged: Path, rows: Path, left_out: str = _NOTHING) -> JoinedRows:
    """Write the staged queries, each followed by its clicks; spills to disk if large.

    `left_out` is a query over `staged` for the rows of queries that were only typed further.
    """
    import duckdb  # not loaded for logs of other formats

    with duckdb.connect() as base:
        base.execute(f"SET memory_limit = '512MB'; SET temp_directory = {_literal(staged)}")
        _view(base, staged)
        base.execute(f"CREATE TABLE left_out AS SELECT row FROM ({left_out})")
        base.execute(_QUERIES)
        written = base.execute(f"COPY ({_ROWS}) TO {_literal(rows / 'part-00000.parquet')}")
        return JoinedRows(written.fetchall()[0][0], base.sql(_REJECTED).pl())


def _view(base: Any, staged: Path) -> None:
    files = ", ".join(map(_literal, sorted(staged.glob("part-*.parquet"))))
    base.execute(f"CREATE VIEW staged AS FROM read_parquet([{files}])")


def _literal(path: Path) -> str:
    escaped = str(path).replace("'", "''")
    return f"'{escaped}'"

"""Algolia: its logs of requests (`GET /1/logs`), and click events of its Insights API beside them.

Algolia searches with every key that is pressed. As in its own analytics, what was typed further
within 30 seconds is set aside: `r`, `re`, `red` are one search, `red`. A query that was clicked on
is kept, whatever came after it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import polars as pl

from nextquery.logs.formats.analytics.json_documents import (
    DocumentFormat,
    sample_document,
    text_of,
)
from nextquery.logs.formats.base import JoinedFormat, JoinedRows
from nextquery.logs.formats.clicks import (
    STAGED_COLUMNS,
    join_clicks,
    stage_clicks,
    stage_queries,
)
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.rows import ParsedRows, describe_rejected
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.reading.text_rows import Row

_SEARCH_URL = re.compile(r"^/1/indexes/[^/?]+/(?:queries|query)(?:$|\?)")
_STRING = r'"(?:[^"\\]|\\.)*"'
_QUERIES = re.compile(rf'"(query|params|userToken)"\s*:\s*({_STRING})')
"""Bodies are cut after 1,000 characters, so that they are seldom whole JSON."""

# Within half a minute: typed further, or shortened on the way to something else.
_KEYSTROKES = """
    SELECT row FROM (
        SELECT row, query_id, lower(query) AS typed,
               lower(lead(query) OVER w) AS later,
               lower(lag(query) OVER w) AS earlier,
               lead(time) OVER w - time <= INTERVAL 30 SECOND AS soon,
               time - lag(time) OVER w <= INTERVAL 30 SECOND AS lately
        FROM staged WHERE click IS NULL
        WINDOW w AS (PARTITION BY "user" ORDER BY time, row)
    ) AS queries
    ANTI JOIN (FROM staged WHERE click IS NOT NULL) AS clicked USING (query_id)
    WHERE soon AND (starts_with(later, typed) OR (lately AND starts_with(earlier, typed)))
"""


class AlgoliaFormat(DocumentFormat, JoinedFormat):
    """A row per query of a request, and per object of a click event."""

    name = "algolia"
    list_name = "logs"
    fields = ("user", "time_text", "query", "click", "query_id")
    staged_columns = STAGED_COLUMNS

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the fields of a logged request, or of a click event."""
        if settings.columns is not None:
            return None
        for found in sample_document(sample, self.list_name):
            if {"query_body", "answer_code", "url"} <= found.keys():
                return "it is JSON with query_body and answer_code, as Algolia logs requests"
            if {"eventType", "userToken", "objectIDs"} <= found.keys():
                return "it is JSON with eventType and objectIDs, as Algolia's events have them"
        return None

    def rows(self, found: dict[str, Any]) -> Iterator[Row]:
        """The queries of a request, or the clicks of an event."""
        if "eventType" in found:
            yield from _click_rows(found)
            return
        url, body = text_of(found.get("url")) or "", text_of(found.get("query_body")) or ""
        searches = _searches(body)
        if not _SEARCH_URL.match(url) or text_of(found.get("answer_code")) != "200" or not searches:
            yield {"text": f"{url} {body}", "reason": rejected_rows.NOT_A_SEARCH}
            return
        inner = found.get("inner_queries")
        ids = [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
        for number, (query, token) in enumerate(searches):
            known = ids[number] if number < len(ids) else {}
            user = text_of(known.get("user_token")) or token or text_of(found.get("ip"))
            yield {
                "user": user,
                "time_text": text_of(found.get("timestamp")),
                "query": query,
                "query_id": text_of(known.get("query_id")),
                "text": query or body,
            }

    def parse_frame(self, frame: pl.DataFrame, settings: ReadSettings) -> ParsedRows:
        """Tell clicks from queries; accepted rows have a `query_id`, clicks what was clicked."""
        is_click = pl.col("click").is_not_null() & pl.col("reason").is_null()
        queries = super().parse_frame(frame.filter(~is_click), settings)
        clicks = frame.filter(is_click)
        fault = pl.when(pl.col("query_id").is_null()).then(pl.lit(rejected_rows.NO_QUERY_ID))
        clicks = clicks.with_columns(fault.alias("reason"))
        staged = stage_clicks(clicks.filter(pl.col("reason").is_null()))
        refused = describe_rejected(clicks.filter(pl.col("reason").is_not_null()))
        return ParsedRows(
            pl.concat([stage_queries(queries.accepted), staged]).sort("line"),
            pl.concat([queries.rejected, refused]).sort("line"),
        )

    def join(self, staged: Path, rows: Path) -> JoinedRows:
        """Write the searches, each followed by its clicks, without those typed further."""
        return join_clicks(staged, rows, _KEYSTROKES)


def _click_rows(event: dict[str, Any]) -> Iterator[Row]:
    items = event.get("objectIDs")
    is_click = text_of(event.get("eventType")) == "click" and isinstance(items, list) and items
    for item in items if is_click and isinstance(items, list) else [None]:
        shown = text_of(event.get("eventName")) or ""
        user = text_of(event.get("userToken"))
        row: Row = {"text": shown, "user": user, "click": text_of(item)}
        query_id = text_of(event.get("queryID"))
        reason = None if row["click"] else rejected_rows.NOT_A_CLICK
        yield row | {"query_id": query_id, "reason": reason}


def _searches(body: str) -> list[tuple[str, str | None]]:
    """The query texts of a request's body, each with the user token that stands beside it.

    A request is one visitor's: a token outside the parameters is that of all its queries.
    """
    found: list[tuple[str, str | None]] = []
    common: str | None = None
    for name, quoted in _QUERIES.findall(body):
        try:
            value = json.loads(quoted)
        except ValueError:
            continue
        if name == "userToken":
            common = value
        elif name == "query":
            found.append((value, None))
        elif "query" in (parameters := parse_qs(value)):
            token = parameters.get("userToken", [None])[0]
            found.append((parameters["query"][0], token))
    return [(query, token or common) for query, token in found]

"""Elastic behavioural analytics: searches and clicks are rows, page views are set aside."""

from dataclasses import dataclass

import polars as pl

from nextquery.logs.formats.base import LineFormat
from nextquery.logs.formats.layouts.json_fields import extract_fields, sample_paths
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.rows import HeaderlessLayout
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.reading.times import USUAL

_PATHS = {
    "user": "user.id|session.id",
    "time_text": "@timestamp",
    "query": "search.query",
    "click": "document.id|page.url.original",
    "action": "event.action",
}


class ElasticFormat(LineFormat):
    """One event per line; a click carries its query and its own time."""

    name = "elastic"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with an action, and a search or a session."""
        names = set() if settings.columns else sample_paths(sample)
        if "event.action" in names and names & {"search.query", "session.id"}:
            return (
                "its lines are JSON objects with event.action and session.id, as Elastic "
                "behavioural analytics (deprecated since 9.0) has them"
            )
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> "ElasticLayout":
        """The same for every file."""
        return ElasticLayout()


@dataclass(frozen=True)
class ElasticLayout(HeaderlessLayout):
    """Events of behavioural analytics: searches and clicks are rows, page views are set aside."""

    time_pattern: str = USUAL

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add the fields and reasons; only a click event keeps its document."""
        found = extract_fields(lines, _PATHS)
        action = pl.col("action").str.to_lowercase()
        fault = (
            pl.when(action.is_null())
            .then(pl.lit(rejected_rows.NO_ACTION))
            .when(~action.is_in(["search", "search_click"]))
            .then(pl.lit(rejected_rows.NOT_A_SEARCH))
        )
        return found.with_columns(
            pl.coalesce("reason", fault),
            pl.when(action == "search_click").then("click").alias("click"),
        ).drop("action")

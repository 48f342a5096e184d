"""Google Analytics 4: events as BigQuery exports them, one JSON object per line.

A search is an event `view_search_results` (or `search`, in apps) with the parameter `search_term`;
all other events are set aside. Times are microseconds since 1970.
"""

import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from nextquery.logs.formats.base import LineFormat
from nextquery.logs.formats.layouts.json_fields import extract_fields, sample_paths
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.rows import HeaderlessLayout
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.reading.times import USUAL

_PATHS = {
    "user": "user_pseudo_id|user_id",
    "time_text": "event_timestamp",
    "event": "event_name",
}
_SEARCHES = ("view_search_results", "search")
_MICROSECONDS = r"^(\d{13})(\d{3})$"


class Ga4Format(LineFormat):
    """One event per line; searches carry their text among their parameters."""

    name = "ga4"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the fields of an event."""
        wanted = {"event_name", "event_timestamp", "event_params"}
        if settings.columns is None and sample_paths(sample) >= wanted:
            return "its lines are JSON objects with event_name and event_params, as GA4 has them"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> "Ga4Layout":
        """The same for every file."""
        return Ga4Layout()


@dataclass(frozen=True)
class Ga4Layout(HeaderlessLayout):
    """Events of GA4: searches are rows, all others are set aside."""

    time_pattern: str = USUAL

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""
        found = extract_fields(lines, _PATHS)
        is_search = found["event"].is_in(_SEARCHES).fill_null(False)
        places = is_search.arg_true()
        query = pl.repeat(None, len(found), dtype=pl.String, eager=True)
        terms = [_search_term(text) for text in found["text"].gather(places)]
        fault = pl.when(~is_search).then(pl.lit(rejected_rows.NOT_A_SEARCH))
        time = pl.col("time_text").str.replace(_MICROSECONDS, "${1}.${2}")
        return found.with_columns(
            query.scatter(places, terms).alias("query"),
            time,
            pl.coalesce("reason", fault),
            click=pl.lit(None, pl.String),
        ).drop("event")


def _search_term(text: str) -> str | None:
    """The parameter `search_term` of an event; None if it has none that can be read."""
    try:
        parameters = json.loads(text).get("event_params")
        return next(filter(None, map(_value, parameters)), None)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _value(parameter: Any) -> str | None:
    if parameter["key"] != "search_term":
        return None
    for value in parameter["value"].values():
        if value is not None:
            text = str(value)
            return text.encode(errors="replace").decode().replace("\0", " ")
    return None

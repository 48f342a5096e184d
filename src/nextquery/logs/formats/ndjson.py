"""Any log of JSON objects, one per line: the fields are named by their paths."""

from dataclasses import dataclass

import polars as pl

from nextquery.errors import LogError
from nextquery.logs.formats.base import LineFormat
from nextquery.logs.formats.layouts.columns import FIELDS, REQUIRED
from nextquery.logs.formats.layouts.json_fields import extract_fields, sample_objects, sample_paths
from nextquery.logs.reading.rows import HeaderlessLayout
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.reading.times import USUAL


class NdjsonFormat(LineFormat):
    """One object per line; the columns are paths such as `search.query`."""

    name = "ndjson"
    takes_columns = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects, and chosen columns or fields called user, time and query."""
        if settings.columns is not None:
            described = "its lines are JSON objects and the columns were given"
            return described if sample_objects(sample) else None
        if sample_paths(sample) >= set(REQUIRED):
            return "its lines are JSON objects with user, time and query"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> "JsonLayout":
        """The chosen paths, or fields called by their meaning."""
        wanted = settings.columns or {name: name for name in FIELDS}
        if any('"' in path for path in wanted.values()):
            raise LogError("`columns` of an NDJSON log may not hold a double quote")
        return JsonLayout(wanted["user"], wanted["time"], wanted["query"], wanted.get("click"))


@dataclass(frozen=True)
class JsonLayout(HeaderlessLayout):
    """The paths of the fields; several paths joined by `|` are tried in turn."""

    user: str
    time: str
    query: str
    click: str | None
    time_pattern: str = USUAL

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""
        paths = {"user": self.user, "time_text": self.time, "query": self.query}
        if self.click:
            return extract_fields(lines, paths | {"click": self.click})
        return extract_fields(lines, paths).with_columns(click=pl.lit(None, pl.String))

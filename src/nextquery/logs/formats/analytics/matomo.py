"""Matomo's visits log (`Live.getLastVisitsDetails`, as JSON): searches are actions of a visit.

The page, download or link that a visitor opens right after a site search is taken as its click, as
in Matomo's own report of pages following a search.
"""

from collections.abc import Iterator
from typing import Any

from nextquery.logs.formats.analytics.json_documents import (
    DocumentFormat,
    text_of,
)
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.reading.text_rows import Row

_OPENED = frozenset({"action", "download", "outlink"})


class MatomoFormat(DocumentFormat):
    """A row per action of a visit; those that are no search, nor follow one, are set aside."""

    name = "matomo"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the actions of a visit."""
        if settings.columns is not None:
            return None
        start = "\n".join(sample.lines)
        is_visits = start.lstrip("\ufeff \n")[:1] in ("[", "{") and '"actionDetails"' in start
        known = is_visits and ('"visitorId"' in start or '"idVisit"' in start)
        return "it is JSON with visits and their actionDetails" if known else None

    def rows(self, found: dict[str, Any]) -> Iterator[Row]:
        """The actions of a visit, in their order."""
        user = text_of(found.get("userId")) or text_of(found.get("visitorId"))
        actions = found.get("actionDetails")
        query = None
        for action in actions if isinstance(actions, list) else [None]:
            if not isinstance(action, dict):
                yield {"text": str(action), "reason": rejected_rows.NOT_A_SEARCH}
                continue
            kind, time = action.get("type"), text_of(action.get("timestamp"))
            text = text_of(action.get("siteSearchKeyword")) or text_of(action.get("url"))
            row: Row = {"user": user, "time_text": time, "text": text or str(kind)}
            if kind == "search":
                query = text_of(action.get("siteSearchKeyword"))
                yield row | {"query": query}
            elif kind in _OPENED and query and text_of(action.get("url")):
                yield row | {"query": query, "click": text_of(action.get("url"))}
                query = None
            else:
                yield row | {"reason": rejected_rows.NOT_A_SEARCH}

"""Exports of analytics services: Algolia, Elastic, Google Analytics 4 and Matomo."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import narwhals as nw
import polars as pl

from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.formats.base import JoinedFormat, JoinedRows, LineFormat, join_clicks, stage
from nextquery.logs.formats.json import (
    DocumentFormat,
    extract_fields,
    sample_document,
    sample_paths,
    text_of,
)
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import Sample
from nextquery.logs.reading.rows import Layout, ParsedRows, Row
from nextquery.logs.settings import ReadSettings

_SEARCH_URL = re.compile(r"^/1/indexes/[^/?]+/(?:queries|query)(?:$|\?)")
_STRING = r'"(?:[^"\\]|\\.)*"'
_QUERIES = re.compile(rf'"(query|params|userToken)"\s*:\s*({_STRING})')
"""Bodies are cut after 1,000 characters, so that they are seldom whole JSON."""

_TYPING_PAUSE = timedelta(seconds=30)
_TYPED = pl.Schema({"row": pl.Int64(), "query_id": pl.String()})


def find_typed(engine: Engine, queries: Frame, clicks: Frame) -> Frame:
    """Queries that were typed further within half a minute, or shortened to type something else.

    A query with a click was a search.
    """

    def neighbour(name: str, step: int) -> nw.Expr:
        return nw.col(name).shift(step).over("user", order_by=["time", "row"])

    rows = queries.select(
        "row",
        "query_id",
        "query",
        "time",
        later=neighbour("query", -1),
        later_time=neighbour("time", -1),
        earlier=neighbour("query", 1),
        earlier_time=neighbour("time", 1),
    )
    typed = engine.apply(rows, _select_typed, _TYPED, "typed")
    return typed.join(clicks.select("query_id").unique(), on="query_id", how="anti")


def _select_typed(batch: pl.DataFrame) -> pl.DataFrame:
    typed, later, earlier = (
        pl.col(name).str.to_lowercase() for name in ("query", "later", "earlier")
    )
    soon = pl.col("later_time") - pl.col("time") <= _TYPING_PAUSE
    lately = pl.col("time") - pl.col("earlier_time") <= _TYPING_PAUSE
    continued = later.str.starts_with(typed) | (lately & earlier.str.starts_with(typed))
    return batch.filter(soon & continued).select(_TYPED.names())


class AlgoliaFormat(DocumentFormat, JoinedFormat):
    """A row per query of a request, and per object of a click event."""

    name = "algolia"
    list_name = "logs"
    fields = ("user", "time_text", "query", "click", "query_id")

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the fields of a logged request, or of a click event."""
        if settings.columns is not None:
            return None
        for entry in sample_document(sample, self.list_name):
            if {"query_body", "answer_code", "url"} <= entry.keys():
                return "it is JSON with query_body and answer_code, as Algolia logs requests"
            if {"eventType", "userToken", "objectIDs"} <= entry.keys():
                return "it is JSON with eventType and objectIDs, as Algolia's events have them"
        return None

    def rows(self, entry: dict[str, Any]) -> Iterator[Row]:
        """The queries of a request, or the clicks of an event."""
        if "eventType" in entry:
            items = entry.get("objectIDs")
            is_click = text_of(entry.get("eventType")) == "click" and isinstance(items, list)
            for item in (items if is_click else None) or [None]:
                click = text_of(item)
                yield {
                    "text": text_of(entry.get("eventName")) or "",
                    "user": text_of(entry.get("userToken")),
                    "click": click,
                    "query_id": text_of(entry.get("queryID")),
                    "reason": None if click else rejects.NOT_A_CLICK,
                }
            return
        url, body = text_of(entry.get("url")) or "", text_of(entry.get("query_body")) or ""
        searches = _searches(body)
        if not _SEARCH_URL.match(url) or text_of(entry.get("answer_code")) != "200" or not searches:
            yield {"text": f"{url} {body}", "reason": rejects.NOT_A_SEARCH}
            return
        inner = entry.get("inner_queries")
        ids = [ids for ids in (inner if isinstance(inner, list) else ()) if isinstance(ids, dict)]
        for number, (query, token) in enumerate(searches):
            session_ids = ids[number] if number < len(ids) else {}
            user = text_of(session_ids.get("user_token")) or token or text_of(entry.get("ip"))
            yield {
                "user": user,
                "time_text": text_of(entry.get("timestamp")),
                "query": query,
                "query_id": text_of(session_ids.get("query_id")),
                "text": query or body,
            }

    def parse_frame(self, frame: pl.DataFrame, settings: ReadSettings) -> ParsedRows:
        """Tell clicks from queries; accepted rows have a `query_id`, clicks what was clicked."""
        is_click = pl.col("click").is_not_null() & pl.col("reason").is_null()
        queries = super().parse_frame(frame.filter(~is_click), settings)
        fault = pl.when(pl.col("query_id").is_null()).then(pl.lit(rejects.NO_QUERY_ID))
        return stage(queries, frame.filter(is_click).with_columns(reason=fault))

    def join(self, engine: Engine, staged: Path, rows: Path) -> JoinedRows:
        """Write the searches, each followed by its clicks, without those typed further."""
        return join_clicks(engine, staged, rows, find_typed)


def _searches(body: str) -> list[tuple[str, str | None]]:
    """The query texts of a request's body, each with its user token.

    A request is one visitor's: a token outside the parameters is that of all its queries.
    """
    searches: list[tuple[str, str | None]] = []
    common: str | None = None
    for name, quoted in _QUERIES.findall(body):
        try:
            value = json.loads(quoted)
        except ValueError:
            continue
        if name == "userToken":
            common = value
        elif name == "query":
            searches.append((value, None))
        elif "query" in (parameters := parse_qs(value, errors="surrogateescape")):
            token = parameters.get("userToken", [None])[0]
            searches.append((parameters["query"][0], token))
    return [(query, token or common) for query, token in searches]


_ELASTIC_PATHS = {
    "user": "user.id|session.id",
    "time_text": "@timestamp",
    "query": "search.query",
    "click": "document.id|page.url.original",
    "action": "event.action",
}


class ElasticFormat(LineFormat, Layout):
    """One event of behavioural analytics per line; a click carries its query and its own time."""

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

    def layout(self, sample: Sample, settings: ReadSettings) -> Layout:
        """The same for every file."""
        return self

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Searches and clicks are rows, page views are excluded; only a click has its document."""
        events = extract_fields(lines, _ELASTIC_PATHS)
        action = pl.col("action").str.to_lowercase()
        fault = (
            pl.when(action.is_null())
            .then(pl.lit(rejects.NO_ACTION))
            .when(~action.is_in(["search", "search_click"]))
            .then(pl.lit(rejects.NOT_A_SEARCH))
        )
        return events.with_columns(
            pl.coalesce("reason", fault),
            pl.when(action == "search_click").then("click").alias("click"),
        ).drop("action")


_GA4_PATHS = {
    "user": "user_pseudo_id|user_id",
    "time_text": "event_timestamp",
    "event": "event_name",
}
_SEARCHES = ("view_search_results", "search")
_MICROSECONDS = r"^(\d{13})(\d{3})$"


class Ga4Format(LineFormat, Layout):
    """One event per line; searches carry their text among their parameters."""

    name = "ga4"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the fields of an event."""
        required = {"event_name", "event_timestamp", "event_params"}
        if settings.columns is None and sample_paths(sample) >= required:
            return "its lines are JSON objects with event_name and event_params, as GA4 has them"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> Layout:
        """The same for every file."""
        return self

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Searches are rows, other events are excluded."""
        events = extract_fields(lines, _GA4_PATHS)
        is_search = events["event"].is_in(_SEARCHES).fill_null(False)
        indices = is_search.arg_true()
        query = pl.repeat(None, len(events), dtype=pl.String, eager=True)
        terms = [_search_term(text) for text in events["text"].gather(indices)]
        faults = [_fault(term) for term in terms]
        terms = [None if fault else term for term, fault in zip(terms, faults, strict=True)]
        fault = pl.when(~is_search).then(pl.lit(rejects.NOT_A_SEARCH))
        in_term = pl.lit(query.scatter(indices, faults))
        time = pl.col("time_text").str.replace(_MICROSECONDS, "${1}.${2}")
        return events.with_columns(
            query.scatter(indices, terms).alias("query"),
            time,
            pl.coalesce("reason", fault, in_term),
            click=pl.lit(None, pl.String),
        ).drop("event")


def _search_term(text: str) -> str | None:
    """The parameter `search_term` of an event; None if it has none that can be read."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    parameters = event.get("event_params") if isinstance(event, dict) else None
    terms = map(_value, parameters if isinstance(parameters, list) else ())
    return next(filter(None, terms), None)


def _value(parameter: Any) -> str | None:
    """The text or number of a parameter `search_term`; other parameters and faulty ones have none.

    >>> _value({"key": "search_term", "value": {"string_value": None, "int_value": 501}})
    '501'
    >>> _value({"value": {"string_value": "red"}}), _value({"key": "search_term"})
    (None, None)
    """
    if not isinstance(parameter, dict) or parameter.get("key") != "search_term":
        return None
    values = parameter.get("value")
    texts = map(text_of, values.values() if isinstance(values, dict) else ())
    return next((text for text in texts if text is not None), None)


def _fault(term: str | None) -> str | None:
    """Why a term cannot be a query: half a character, or a NUL."""
    if term is None:
        return None
    try:
        term.encode()
    except UnicodeEncodeError:
        return rejects.MALFORMED_TEXT
    return rejects.NUL_BYTE if "\0" in term else None


_OPENED = frozenset({"action", "download", "outlink"})


class MatomoFormat(DocumentFormat):
    """A row per action of a visit; actions that neither are nor follow a search are excluded."""

    name = "matomo"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects with the actions of a visit."""
        if settings.columns is not None:
            return None
        start = "\n".join(sample.lines)
        is_visits = start.lstrip("\ufeff \n")[:1] in ("[", "{") and '"actionDetails"' in start
        has_fields = is_visits and ('"visitorId"' in start or '"idVisit"' in start)
        return "it is JSON with visits and their actionDetails" if has_fields else None

    def rows(self, visit: dict[str, Any]) -> Iterator[Row]:
        """The actions of a visit, in their order."""
        user = text_of(visit.get("userId")) or text_of(visit.get("visitorId"))
        actions = visit.get("actionDetails")
        query = None
        for action in actions if isinstance(actions, list) else [None]:
            if not isinstance(action, dict):
                yield {"text": str(action), "reason": rejects.NOT_A_SEARCH}
                continue
            kind, time = text_of(action.get("type")), text_of(action.get("timestamp"))
            text = text_of(action.get("siteSearchKeyword")) or text_of(action.get("url"))
            row: Row = {"user": user, "time_text": time, "text": text or str(kind)}
            if kind == "search":
                query = text_of(action.get("siteSearchKeyword"))
                yield row | {"query": query}
            elif kind in _OPENED and query and text_of(action.get("url")):
                yield row | {"query": query, "click": text_of(action.get("url"))}
                query = None
            else:
                yield row | {"reason": rejects.NOT_A_SEARCH}


_GA4_ADVICE = "export events to BigQuery and extract them as JSON (format ga4)"
_MATOMO_ADVICE = "export the visits log, Live.getLastVisitsDetails as JSON (format matomo)"
_ALGOLIA_ADVICE = "save the logs of requests, GET /1/logs (format algolia)"
_CONSOLE_ADVICE = "use a log of the site's own search"
_REPORTS = (
    ({"searchterm", "eventcount"}, "GA4", _GA4_ADVICE),
    ({"label", "nbvisits"}, "Matomo", _MATOMO_ADVICE),
    ({"keyword", "searches", "searchexits"}, "Matomo", _MATOMO_ADVICE),
    ({"search", "count", "nbhits"}, "Algolia", _ALGOLIA_ADVICE),
    ({"topqueries", "clicks", "impressions"}, "the Google Search Console", _CONSOLE_ADVICE),
)
_VISITS = {"idvisit", "visitorid"}
_MOST_LINES = 30


def describe_report(sample: Sample) -> str | None:
    """What a report of counts is, and what to export instead; None if the file is not one.

    >>> from pathlib import Path
    >>> lines = ("# Site search", "Search term,Event count,Total users", "red shoes,12,9")
    >>> (describe_report(Sample(Path("report.csv"), lines)) or "")[:46]
    'a report of GA4 that counts searches: it names'
    """
    for line in sample.lines[:_MOST_LINES]:
        names = {re.sub(r"[^a-z]", "", name.lower()) for name in re.split(r'[,;\t{}:"]', line)}
        if names >= _VISITS and "{" not in line:
            return (
                "Matomo's visits log as a table, which has its searches in numbered columns; "
                "export it as JSON, format=json in the address (format matomo)"
            )
        for columns, service, instead in _REPORTS:
            if columns <= names:
                return (
                    f"a report of {service} that counts searches: it names neither visitors nor "
                    f"times, so there are no sessions in it; {instead}"
                )
    return None

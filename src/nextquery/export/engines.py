"""Exports for search engines: the queries that are written, and the files of each engine."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nextquery.errors import InputError
from nextquery.normalise import join_words
from nextquery.records import Suggestion
from nextquery.settings import check_limits, setting

if TYPE_CHECKING:
    from nextquery.suggesters.base import Guarded, Suggester


@dataclass(frozen=True)
class ExportSettings:
    """How much is exported."""

    queries: int = setting(10_000, least=1)
    """The most frequent queries that are written."""
    next_queries: int = setting(8, least=1, most=50)
    """Next queries of each, at most."""

    def __post_init__(self) -> None:
        check_limits(self)


BATCH = 64


@dataclass(frozen=True)
class NextQuery:
    """A query that may come next."""

    text: str
    score: float
    """The model's; comparable within one list only."""
    count: int = 0
    """How often it was typed in the log; 0 for one that a model made up."""


@dataclass(frozen=True)
class ExportedQuery:
    """One query, how often it was typed, and what comes next, best first."""

    text: str
    count: int
    following: tuple[NextQuery, ...]


def exported_queries(model: "Suggester", settings: ExportSettings) -> Iterator[ExportedQuery]:
    """The queries to write, most frequent first, ties by text; what the guard refuses is left out.

    Only queries that at least K users typed are known at all.
    """
    frequent = frequent_queries(model, settings.queries)
    tables = cast("Guarded", model).guard.tables
    for start in range(0, len(frequent), BATCH):
        part = frequent[start : start + BATCH]
        lists = _lists(model, [(text,) for text, _ in part], settings.next_queries)
        for (text, count), following in zip(part, lists, strict=True):
            shown = tuple(
                NextQuery(join_words(item.text), item.score, tables.count(item.text))
                for item in following
            )
            yield ExportedQuery(join_words(text), count, shown)


def frequent_queries(model: "Suggester", most: int) -> list[tuple[str, int]]:
    """The most frequent known queries that may be shown, with their counts."""
    from nextquery.suggesters.base import Guarded

    if not isinstance(model, Guarded):
        raise InputError(f"a model of the kind {model.kind} has no guard and is not exported")
    tables: Any = model.guard.tables.queries
    counted = sorted(((-count, text) for text, (count,) in tables.items()))
    shown: list[tuple[str, int]] = []
    for count, text in counted:
        if len(shown) == most:
            break
        if model.guard.allows(text):
            shown.append((text, -count))
    if not shown:
        raise InputError("no query of the model may be shown: there is nothing to export")
    return shown


def _lists(
    model: "Suggester", contexts: Sequence[tuple[str, ...]], n: int
) -> list[list[Suggestion]]:
    from nextquery.suggesters.base import BatchSuggester

    if isinstance(model, BatchSuggester):
        return model.suggest_many(contexts, n)
    return [model.suggest(context, n) for context in contexts]


INDEX = "query_suggestions"
ANYWHERE = "*"
"""The context of a query without one before it: engines need some context to be named."""
_LARGEST_WEIGHT = 2**31 - 1


def write_json(queries: Iterable[ExportedQuery], folder: Path) -> None:
    """`suggestions.ndjson`: everything, for your own programs."""
    records = (
        {
            "query": query.text,
            "count": query.count,
            "next": [
                {"query": item.text, "score": item.score, "count": item.count}
                for item in query.following
            ],
        }
        for query in queries
    )
    _write_lines(records, folder / "suggestions.ndjson")


def write_algolia(queries: Iterable[ExportedQuery], folder: Path) -> None:
    """Records of an index of external suggestions, and its settings."""
    records = (
        {
            "objectID": _id(query.text),
            "query": query.text,
            "nb_words": len(query.text.split()),
            "popularity": query.count,
            "next": [item.text for item in query.following],
        }
        for query in queries
    )
    _write_lines(records, folder / "objects.ndjson")
    _write(
        {"searchableAttributes": ["query"], "customRanking": ["desc(popularity)"]},
        folder / "settings.json",
    )


def write_typesense(queries: Iterable[ExportedQuery], folder: Path) -> None:
    """A collection with the fields `q` and `count` that Typesense's query suggestions have."""
    records = (
        {
            "id": _id(query.text),
            "q": query.text,
            "count": min(query.count, _LARGEST_WEIGHT),
            "next": [item.text for item in query.following],
        }
        for query in queries
    )
    _write_lines(records, folder / "documents.jsonl")
    fields = [
        {"name": "q", "type": "string"},
        {"name": "count", "type": "int32"},
        {"name": "next", "type": "string[]", "index": False, "optional": True},
    ]
    schema = {"name": INDEX, "fields": fields, "default_sorting_field": "count"}
    _write(schema, folder / "schema.json")


def write_meilisearch(queries: Iterable[ExportedQuery], folder: Path) -> None:
    """Documents with the primary key `id`, and settings that rank by count."""
    records = (
        {
            "id": _id(query.text),
            "query": query.text,
            "count": query.count,
            "next": [item.text for item in query.following],
        }
        for query in queries
    )
    _write_lines(records, folder / "documents.ndjson")
    _write(
        {
            "searchableAttributes": ["query"],
            "sortableAttributes": ["count"],
            "rankingRules": [
                *("words", "typo", "proximity", "attribute", "sort", "exactness"),
                "count:desc",
            ],
        },
        folder / "settings.json",
    )


def write_completion(queries: Iterable[ExportedQuery], folder: Path) -> None:
    """A completion field with the query before as its category context: ADJ without Python.

    Elasticsearch and OpenSearch share it. Every query is offered without context under `*` and
    weighs its count; every next query is offered under the query that it follows, the better the
    heavier, and all of them are heavier than any without context.
    """
    queries = list(queries)
    longest = max((len(query.following) for query in queries), default=0)
    heaviest = max((query.count for query in queries), default=0)
    heaviest = min(heaviest, _LARGEST_WEIGHT - longest)
    suggest = {"type": "completion", "contexts": [{"name": "previous", "type": "category"}]}
    properties = {"suggest": suggest, "query": {"type": "keyword"}, "count": {"type": "long"}}
    _write({"mappings": {"properties": properties}}, folder / "index.json")

    def lines() -> Iterable[dict[str, Any]]:
        for query in queries:
            weight = min(query.count, heaviest)
            yield from _completion(query.text, query, ANYWHERE, weight)
            for position, item in enumerate(query.following):
                weight = heaviest + longest - position
                yield from _completion(f"{query.text}\t{item.text}", item, query.text, weight)

    _write_lines(lines(), folder / "bulk.ndjson")


def _completion(
    key: str, query: ExportedQuery | NextQuery, previous: str, weight: int
) -> Iterable[dict[str, Any]]:
    """The action and the document of a query; `count` is how often it was typed."""
    yield {"index": {"_index": INDEX, "_id": _id(key)}}
    field = {"input": [query.text], "weight": weight, "contexts": {"previous": [previous]}}
    yield {"query": query.text, "count": query.count, "suggest": field}


ENGINES: dict[str, Callable[[Iterable[ExportedQuery], Path], None]] = {
    "json": write_json,
    "algolia": write_algolia,
    "typesense": write_typesense,
    "meilisearch": write_meilisearch,
    "elasticsearch": write_completion,
    "opensearch": write_completion,
}


def _id(text: str) -> str:
    """An identifier of letters and digits, the same for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _write(document: Any, path: Path) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_lines(records: Iterable[dict[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for record in records:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")

"""Exported lists: files for search engines, and static lists that need no service."""

import gzip
import hashlib
import json
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nextquery.errors import InputError
from nextquery.normalise import join_words
from nextquery.records import Suggestion
from nextquery.settings import check_limits, setting

if TYPE_CHECKING:  # the command line imports the settings
    from nextquery.logs.data_folder import PreparedData
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
    lists = _lists(model, [(text,) for text, _ in frequent], settings.next_queries)
    for (text, count), following in zip(frequent, lists, strict=True):
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
) -> Iterator[list[Suggestion]]:
    """A list for each context."""
    from nextquery.suggesters.base import BatchSuggester

    if isinstance(model, BatchSuggester):
        for start in range(0, len(contexts), BATCH):
            yield from model.suggest_many(contexts[start : start + BATCH], n)
    else:
        yield from (model.suggest(context, n) for context in contexts)


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
    records = _records(queries, "objectID", "query", "popularity")
    _write_lines(
        ({**record, "nb_words": len(record["query"].split())} for record in records),
        folder / "objects.ndjson",
    )
    _write(
        {"searchableAttributes": ["query"], "customRanking": ["desc(popularity)"]},
        folder / "settings.json",
    )


def _records(
    queries: Iterable[ExportedQuery], identifier: str, text: str, count: str
) -> Iterator[dict[str, Any]]:
    """A document per query; the fields have the names that an engine expects."""
    for query in queries:
        yield {
            identifier: _id(query.text),
            text: query.text,
            count: query.count,
            "next": [item.text for item in query.following],
        }


def write_typesense(queries: Iterable[ExportedQuery], folder: Path) -> None:
    """A collection with the fields `q` and `count` that Typesense's query suggestions have."""
    records = _records(queries, "id", "q", "count")
    _write_lines(
        ({**record, "count": min(record["count"], _LARGEST_WEIGHT)} for record in records),
        folder / "documents.jsonl",
    )
    fields = [
        {"name": "q", "type": "string"},
        {"name": "count", "type": "int32"},
        {"name": "next", "type": "string[]", "index": False, "optional": True},
    ]
    schema = {"name": INDEX, "fields": fields, "default_sorting_field": "count"}
    _write(schema, folder / "schema.json")


def write_meilisearch(queries: Iterable[ExportedQuery], folder: Path) -> None:
    """Documents with the primary key `id`, and settings that rank by count."""
    _write_lines(_records(queries, "id", "query", "count"), folder / "documents.ndjson")
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


VERSION = 2
LISTS_PER_SHARD = 64
"""About the most lists of a shard: it is a few kilobytes, and a visit fetches one per query."""
MOST_CHARACTERS = 4


def write_static(queries: Iterable[ExportedQuery], folder: Path) -> None:
    """Write the shards and their index."""
    lists = {
        query.text: [item.text for item in query.following] for query in queries if query.following
    }
    characters = shard_characters(len(lists))
    shards: dict[str, dict[str, list[str]]] = {}
    for text, following in lists.items():
        shards.setdefault(shard_of(text, characters), {})[text] = following
    target = folder / "shards"
    target.mkdir()
    for name, shard in sorted(shards.items()):
        text = json.dumps(shard, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        # No time in the file: the same lists are the same bytes, which caches notice.
        packed = gzip.compress(text.encode(), mtime=0)
        (target / f"{name}.json.gz").write_bytes(packed)
    index = {"version": VERSION, "hash": "sha256", "characters": characters, "lists": len(lists)}
    (folder / "index.json").write_text(json.dumps(index) + "\n", encoding="utf-8")


def shard_characters(lists: int) -> int:
    """How many characters of a hash name a shard.

    >>> [shard_characters(lists) for lists in (0, 1_000, 10_000, 200_000)]
    [1, 1, 2, 3]
    """
    characters = 1
    while characters < MOST_CHARACTERS and lists > LISTS_PER_SHARD * 16**characters:
        characters += 1
    return characters


def shard_of(query: str, characters: int) -> str:
    """The shard of a normalised query.

    >>> shard_of("red boots", 2)
    'bc'
    """
    return hashlib.sha256(query.encode()).hexdigest()[:characters]


class StaticLists:
    """The lists of an export as a page reads them, with what that costs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._characters: int = json.loads((folder / "index.json").read_text("utf-8"))["characters"]
        self._shards: dict[str, Any] = {}

    def suggest(self, context: Sequence[str]) -> list[str]:
        """The list that a page shows after a normalised context; empty if there is none."""
        written = [join_words(query) for query in context]
        for query in reversed(written):
            following = self._lists(self._shard(query)).get(query, [])
            fresh = [text for text in following if text not in written]
            if fresh:
                return fresh
        return []

    def visit_bytes(self, queries: Iterable[str]) -> int:
        """What a visit of normalised queries fetches: the index, and each of its shards once."""
        shards = {self._shard(join_words(query)) for query in queries}
        files = [self._folder / "index.json", *map(self._file, shards)]
        return sum(file.stat().st_size for file in files if file.is_file())

    def _shard(self, query: str) -> str:
        return shard_of(query, self._characters)

    def _file(self, shard: str) -> Path:
        return self._folder / "shards" / f"{shard}.json.gz"

    def _lists(self, shard: str) -> dict[str, list[str]]:
        if shard not in self._shards:
            file = self._file(shard)
            content = gzip.decompress(file.read_bytes()) if file.is_file() else b"{}"
            self._shards[shard] = json.loads(content)
        lists: dict[str, list[str]] = self._shards[shard]
        return lists


SHOWN = 5
SESSIONS = 1000


@dataclass(frozen=True)
class StaticQuality:
    """Static lists and their model after the same contexts, lists of `SHOWN`."""

    sessions: int
    contexts: int
    answered: float
    """Share of contexts after which the files have a suggestion."""
    model_answered: float
    """The same of the model."""
    first_agrees: float
    """Where both answer: the first suggestion is the same."""
    overlap: float
    """Where both answer: share of the model's suggestions that the files have."""
    hits: float
    """Share of contexts whose next query is in the list of the files."""
    model_hits: float
    visit_bytes: float
    """Mean over sessions: the index and each shard once, compressed."""
    visit_bytes_95: float
    """What 95% of the sessions stay below."""


def measure_static(folder: Path, model: "Suggester", data: "PreparedData") -> StaticQuality:
    """Ask the files in `folder` and the model after every query of up to 1,000 test sessions."""
    sessions = [tuple(session.queries) for session in data.sessions("test")]
    if not sessions:
        raise InputError(f"{data.path}: has no test sessions to measure by")
    sessions = random.Random(0).sample(sessions, min(SESSIONS, len(sessions)))
    cases = [
        (queries[:position], queries[position])
        for queries in sessions
        for position in range(1, len(queries))
    ]
    lists = StaticLists(folder)
    contexts = [context for context, _ in cases]
    static = [lists.suggest(context)[:SHOWN] for context in contexts]
    dynamic = [
        [join_words(item.text) for item in items] for items in _lists(model, contexts, SHOWN)
    ]
    both = [pair for pair in zip(static, dynamic, strict=True) if all(pair)]
    next_queries = [join_words(query) for _, query in cases]
    visits = sorted(lists.visit_bytes(queries) for queries in sessions)
    return StaticQuality(
        sessions=len(sessions),
        contexts=len(cases),
        answered=_mean(map(bool, static)),
        model_answered=_mean(map(bool, dynamic)),
        first_agrees=_mean(of_files[0] == of_model[0] for of_files, of_model in both),
        overlap=_mean(
            len(set(of_files) & set(of_model)) / len(of_model) for of_files, of_model in both
        ),
        hits=_mean(query in shown for query, shown in zip(next_queries, static, strict=True)),
        model_hits=_mean(
            query in shown for query, shown in zip(next_queries, dynamic, strict=True)
        ),
        visit_bytes=statistics.mean(visits),
        visit_bytes_95=visits[int(0.95 * (len(visits) - 1))],
    )


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return round(statistics.fmean(numbers), 4) if numbers else 0.0

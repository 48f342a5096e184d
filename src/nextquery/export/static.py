"""Static suggestion files for a CDN, and how they compare with their model."""

import gzip
import hashlib
import json
import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextquery.errors import InputError
from nextquery.export.engines import ExportedQuery
from nextquery.logs.data_folder import PreparedData
from nextquery.normalise import join_words
from nextquery.suggesters.base import BatchSuggester, Suggester

VERSION = 2
LISTS_PER_SHARD = 64
"""About the most lists of a shard: it is a few kilobytes, and a visit fetches one per query."""
MOST_CHARACTERS = 4


@dataclass(frozen=True)
class StaticFacts:
    """What was written."""

    lists: int
    shards: int
    bytes: int
    """As they are sent, compressed."""


def write_static(queries: Iterable[ExportedQuery], folder: Path) -> StaticFacts:
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
    size = 0
    for name, shard in sorted(shards.items()):
        text = json.dumps(shard, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        # No time in the file: the same lists are the same bytes, which caches notice.
        packed = gzip.compress(text.encode(), mtime=0)
        (target / f"{name}.json.gz").write_bytes(packed)
        size += len(packed)
    index = {"version": VERSION, "hash": "sha256", "characters": characters, "lists": len(lists)}
    (folder / "index.json").write_text(json.dumps(index) + "\n", encoding="utf-8")
    return StaticFacts(len(lists), len(shards), size)


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
_TOGETHER = 64


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


def measure_static(folder: Path, model: Suggester, data: PreparedData) -> StaticQuality:
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
    static = [lists.suggest(context)[:SHOWN] for context, _ in cases]
    dynamic = _model_lists(model, [context for context, _ in cases])
    wanted = [join_words(query) for _, query in cases]
    both = [(mine, theirs) for mine, theirs in zip(static, dynamic, strict=True) if mine and theirs]
    visits = sorted(lists.visit_bytes(queries) for queries in sessions)
    return StaticQuality(
        sessions=len(sessions),
        contexts=len(cases),
        answered=_share(static),
        model_answered=_share(dynamic),
        first_agrees=_mean([float(mine[0] == theirs[0]) for mine, theirs in both]),
        overlap=_mean([len(set(mine) & set(theirs)) / len(theirs) for mine, theirs in both]),
        hits=_mean([float(query in shown) for query, shown in zip(wanted, static, strict=True)]),
        model_hits=_mean(
            [float(query in shown) for query, shown in zip(wanted, dynamic, strict=True)]
        ),
        visit_bytes=statistics.mean(visits),
        visit_bytes_95=visits[int(0.95 * (len(visits) - 1))],
    )


def _model_lists(model: Suggester, contexts: Sequence[tuple[str, ...]]) -> list[list[str]]:
    lists = []
    for start in range(0, len(contexts), _TOGETHER):
        part = contexts[start : start + _TOGETHER]
        if isinstance(model, BatchSuggester):
            lists += model.suggest_many(part, SHOWN)
        else:
            lists += [model.suggest(context, SHOWN) for context in part]
    return [[join_words(item.text) for item in items] for items in lists]


def _share(lists: Sequence[Sequence[str]]) -> float:
    return _mean([float(bool(shown)) for shown in lists])


def _mean(values: Sequence[float]) -> float:
    return round(statistics.mean(values), 4) if values else 0.0

"""Suggestions without a server: guarded lists in small compressed files for a CDN.

    OUT/index.json             how many characters of a hash name a shard, how many lists
    OUT/shards/<xx>.json.gz    the lists of the queries whose SHA-256 begins with xx

A page knows the query that was just typed; it hashes it, fetches one shard (browsers keep it) and
shows the list without what the session already has. Where a query has no list, that of the query
before it serves, whose shard is there already.
"""

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextquery.export.exported import ExportedQuery
from nextquery.word_breaks import join_words

VERSION = 2
LISTS_PER_SHARD = 64
"""At most about so many: a shard is a few kilobytes, and a visit fetches one per query."""
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
        found: dict[str, list[str]] = self._shards[shard]
        return found

"""Suggestions without a server: guarded lists in small files for a CDN.

    OUT/index.json            how many shards, how many lists, which n
    OUT/shards/<xx>.json      the lists of the queries whose SHA-256 begins with xx

A page knows the query that was just typed; it hashes it, fetches one shard (browsers keep it) and
shows the list without what the session already has.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextquery.export.exported import ExportedQuery

SHARD_CHARACTERS = 2
"""256 shards."""


@dataclass(frozen=True)
class StaticFacts:
    """What was written."""

    lists: int
    shards: int
    bytes: int


def write_static(queries: Iterable[ExportedQuery], folder: Path) -> StaticFacts:
    """Write the shards and their index."""
    shards: dict[str, dict[str, list[str]]] = {}
    for query in queries:
        if query.following:
            texts = [item.text for item in query.following]
            shards.setdefault(shard_of(query.text), {})[query.text] = texts
    target = folder / "shards"
    target.mkdir()
    size = 0
    for name, lists in sorted(shards.items()):
        text = json.dumps(lists, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        (target / f"{name}.json").write_text(text, encoding="utf-8")
        size += len(text.encode())
    found = StaticFacts(sum(map(len, shards.values())), len(shards), size)
    index = {"version": 1, "hash": "sha256", "characters": SHARD_CHARACTERS, "lists": found.lists}
    (folder / "index.json").write_text(json.dumps(index) + "\n", encoding="utf-8")
    return found


def shard_of(query: str) -> str:
    """The shard of a normalised query.

    >>> shard_of("red boots")
    'bc'
    """
    return hashlib.sha256(query.encode()).hexdigest()[:SHARD_CHARACTERS]


def static_suggestions(folder: Path, context: Sequence[str]) -> list[str]:
    """The list that a page would show after a normalised context; empty if there is none."""
    if not context:
        return []
    path = folder / "shards" / f"{shard_of(context[-1])}.json"
    if not path.is_file():
        return []
    lists: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return [text for text in lists.get(context[-1], []) if text not in context]

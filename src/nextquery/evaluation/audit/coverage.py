"""Blocklist coverage: what a blocklist holds back of a log and of a model's lists, disguises too.

Knows the guard and the lists of a model that is not guarded.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nextquery.guard.blocklist import Blocklist, read_blocklist
from nextquery.guard.guard import Guard
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Suggester

LISTED = 10
CONTEXTS = 200

_LEET = str.maketrans("aeiost", "431057")
_ACCENTS = str.maketrans("aeiou", "áéíóú")

DISGUISES: Mapping[str, Callable[[str], str]] = {
    "as written": lambda entry: entry,
    "leetspeak": lambda entry: entry.translate(_LEET),
    "accents": lambda entry: entry.translate(_ACCENTS),
    "plural": lambda entry: f"{entry}s",
    "letters drawn out": lambda entry: entry[:2] + entry[1] * 2 + entry[2:],
    "letters apart": lambda entry: " ".join(entry.replace(" ", "")),
    "words joined": lambda entry: entry.replace(" ", ""),
}
"""How people hide a word, as far as docs/guards.md promises to see through it."""


@dataclass(frozen=True)
class Coverage:
    """What the guards of a model hold back."""

    entries: int
    known_queries: int
    """Known queries of the log that hold an entry."""
    traffic: float
    """Their share of all that was typed in known queries."""
    lists: int
    refused: Mapping[str, int]
    """By reason: suggestions of the unguarded model that its guards refuse."""
    let_through: int
    """Suggestions of the guarded model that its blocklist blocks: 0, or there is a fault."""
    disguises: Mapping[str, float]
    """The share of the entries that is still seen in each disguise."""


def coverage(
    data: PreparedData, guarded: Suggester, unguarded: Suggester, guard: Guard, path: Path | None
) -> Coverage:
    """What the guards hold back of the log's known queries and of lists after frequent ones."""
    blocklist = read_blocklist(path) if path is not None else Blocklist()
    queries = data.counts("queries").select("query", "count").collect()
    marks = [blocklist.blocks(text) for text in queries["query"]]
    blocked = queries.filter(pl.Series(marks, dtype=pl.Boolean))
    contexts = queries["query"].head(CONTEXTS).to_list()
    refused: Counter[str] = Counter()
    let_through = 0
    for context in contexts:
        for item in unguarded.suggest([context], LISTED):
            reason = guard.refusal(item.text, [context])
            if reason is not None:
                refused[str(reason)] += 1
        shown = guarded.suggest([context], LISTED)
        let_through += sum(blocklist.blocks(item.text) for item in shown)
    total = float(queries["count"].sum())
    return Coverage(
        entries=len(blocklist),
        known_queries=len(blocked),
        traffic=float(blocked["count"].sum()) / total if total else 0.0,
        lists=len(contexts),
        refused=dict(sorted(refused.items())),
        let_through=let_through,
        disguises=_disguises(blocklist, _entries(path)),
    )


def _entries(path: Path | None) -> list[str]:
    if path is None:
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [entry for line in lines if (entry := line.partition("#")[0].strip().lower())]


def _disguises(blocklist: Blocklist, entries: Sequence[str]) -> dict[str, float]:
    if not entries:
        return {}
    return {
        name: float(np.mean([blocklist.blocks(disguise(entry)) for entry in entries]))
        for name, disguise in DISGUISES.items()
    }

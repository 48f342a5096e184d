"""What leaves the model: the frequent queries that may be shown, and what comes after each.

known queries --guard--> most frequent first --model--> the next queries of each
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nextquery.errors import InputError
from nextquery.export.settings import ExportSettings
from nextquery.records import Suggestion
from nextquery.suggesters.base import BatchSuggester, Guarded, Suggester
from nextquery.word_breaks import join_words

BATCH = 64


@dataclass(frozen=True)
class ExportedQuery:
    """One query, how often it was typed, and what comes next, best first."""

    text: str
    count: int
    following: tuple[Suggestion, ...]


def exported_queries(model: Suggester, settings: ExportSettings) -> Iterator[ExportedQuery]:
    """The queries to write, most frequent first, ties by text; what the guard refuses is left out.

    Only queries that at least K users typed are known at all.
    """
    frequent = frequent_queries(model, settings.queries)
    for start in range(0, len(frequent), BATCH):
        part = frequent[start : start + BATCH]
        lists = _lists(model, [(text,) for text, _ in part], settings.next_queries)
        for (text, count), following in zip(part, lists, strict=True):
            shown = (replace(each, text=join_words(each.text)) for each in following)
            yield ExportedQuery(join_words(text), count, tuple(shown))


def frequent_queries(model: Suggester, most: int) -> list[tuple[str, int]]:
    """The most frequent known queries that may be shown, with their counts."""
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
        raise InputError("the model knows no query that may be shown: nothing to export")
    return shown


def _lists(model: Suggester, contexts: Sequence[tuple[str, ...]], n: int) -> list[list[Suggestion]]:
    if isinstance(model, BatchSuggester):
        return model.suggest_many(contexts, n)
    return [model.suggest(context, n) for context in contexts]

"""What static lists are worth beside their model: contexts answered, agreement, bytes per visit.

Asked after the contexts of test sessions, which neither the model nor the export has seen.
"""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import InputError
from nextquery.export.static import StaticLists
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import BatchSuggester, Suggester
from nextquery.word_breaks import join_words

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
    """Where both answer: share of the model's suggestions that the files have, too."""
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
        (queries[:place], queries[place])
        for queries in sessions
        for place in range(1, len(queries))
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
        hits=_mean([float(query in found) for query, found in zip(wanted, static, strict=True)]),
        model_hits=_mean(
            [float(query in found) for query, found in zip(wanted, dynamic, strict=True)]
        ),
        visit_bytes=statistics.mean(visits),
        visit_bytes_95=visits[int(0.95 * (len(visits) - 1))],
    )


def _model_lists(model: Suggester, contexts: Sequence[tuple[str, ...]]) -> list[list[str]]:
    found = []
    for start in range(0, len(contexts), _TOGETHER):
        part = contexts[start : start + _TOGETHER]
        if isinstance(model, BatchSuggester):
            found += model.suggest_many(part, SHOWN)
        else:
            found += [model.suggest(context, SHOWN) for context in part]
    return [[join_words(item.text) for item in items] for items in found]


def _share(lists: Sequence[Sequence[str]]) -> float:
    return _mean([float(bool(found)) for found in lists])


def _mean(values: Sequence[float]) -> float:
    return round(statistics.mean(values), 4) if values else 0.0

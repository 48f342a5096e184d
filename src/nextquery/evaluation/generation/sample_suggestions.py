"""The sample-suggestions table (the paper's Table 1): what systems suggest for a few contexts.

Knows suggesters and sessions. The texts are the log's own: they stay in the report folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nextquery.records import Session
from nextquery.suggesters.base import Suggester

CONTEXTS = 6
SUGGESTIONS = 5


@dataclass(frozen=True)
class SampleContext:
    """A context, what the user typed next, and what every system suggests."""

    context: tuple[str, ...]
    next_query: str
    suggestions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class SampleTable:
    """A few contexts with their suggestions."""

    contexts: tuple[SampleContext, ...]


def sample_suggestions(
    suggesters: Mapping[str, Suggester], sessions: Sequence[Session], seed: int
) -> SampleTable:
    """The first suggestions of every system for contexts of one, two and three queries."""
    generator = np.random.default_rng(seed)
    chosen: list[Session] = []
    for queries in (1, 2, 3):
        fitting = [session for session in sessions if len(session.queries) == queries + 1]
        places = generator.permutation(len(fitting))[: CONTEXTS // 3]
        chosen += [fitting[place] for place in places]
    return SampleTable(tuple(_suggest(suggesters, session) for session in chosen))


def _suggest(suggesters: Mapping[str, Suggester], session: Session) -> SampleContext:
    *context, next_query = session.queries
    lists = {
        name: tuple(found.text for found in suggester.suggest(context, SUGGESTIONS))
        for name, suggester in suggesters.items()
    }
    return SampleContext(tuple(context), next_query, lists)

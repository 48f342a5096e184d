"""The sample-suggestions table (the paper's Table 1): what systems suggest for a few contexts.

Knows suggesters and sessions. The texts are the log's own: they stay in the report folder.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nextquery.records import Session
from nextquery.suggesters.base import Suggester

CONTEXTS = 6
SUGGESTIONS = 5


def sample_suggestions(
    suggesters: Mapping[str, Suggester], sessions: Sequence[Session], seed: int
) -> dict[str, Any]:
    """The first suggestions of every system for contexts of one, two and three queries."""
    generator = np.random.default_rng(seed)
    chosen: list[Session] = []
    for queries in (1, 2, 3):
        fitting = [session for session in sessions if len(session.queries) == queries + 1]
        places = generator.permutation(len(fitting))[: CONTEXTS // 3]
        chosen += [fitting[place] for place in places]
    return {
        "contexts": [
            {
                "context": list(session.queries[:-1]),
                "next_query": session.queries[-1],
                "suggestions": {
                    name: [found.text for found in suggester.suggest(session.queries[:-1])]
                    for name, suggester in suggesters.items()
                },
            }
            for session in chosen
        ]
    }

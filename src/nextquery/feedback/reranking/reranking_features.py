"""What a re-ranker looks at: the model's own order and score, the texts, and what was taken before.

The features of texts have the names that the Baseline Ranker's have (`ranking/features.py`), here
without its libraries: a service computes them for every list.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.feedback.events import Source
from nextquery.feedback.reranking.taken_rates import TakenRates

RECENT = 3
"""Similarity is measured to this many most recent queries."""

FEATURES = (
    "rank",
    "score",
    "score_gap",
    "synthetic",
    "characters",
    "words",
    *(f"similarity_{back}" for back in range(1, RECENT + 1)),
    "new_words",
    "taken_after_query",
    "taken_at_all",
    "exposed",
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A suggestion as the model gave it."""

    text: str
    score: float
    source: Source


def list_features(
    session: Sequence[str], candidates: Sequence[Candidate], rates: TakenRates
) -> NDArray[np.float64]:
    """One row per candidate, in the model's own order, one column per feature.

    The queries of the session are normalised.
    """
    recent = [_trigrams(query) for query in reversed(session[-RECENT:])]
    last = session[-1] if session else ""
    known = set(last.split())
    best = candidates[0].score if candidates else 0.0
    rows = []
    for rank, each in enumerate(candidates):
        trigrams = _trigrams(each.text)
        words = each.text.split()
        similar = [_cosine(trigrams, query) for query in recent]
        rows.append(
            [
                rank,
                each.score,
                best - each.score,
                each.source == "synthetic",
                len(each.text),
                len(words),
                *similar,
                *[0.0] * (RECENT - len(similar)),
                sum(word not in known for word in words),
                math.log(rates.pair(last, each.text) / rates.overall),
                math.log(rates.suggestion(each.text) / rates.overall),
                rates.exposed(last, each.text),
            ]
        )
    return np.array(rows, dtype=np.float64).reshape(-1, len(FEATURES))


def _trigrams(text: str) -> Counter[str]:
    padded = f" {text} "
    return Counter(padded[place : place + 3] for place in range(len(padded) - 2))


def _cosine(left: Counter[str], right: Counter[str]) -> float:
    """The cosine of two counts; 0 where one is empty."""
    shared = sum(count * right[part] for part, count in left.items())
    lengths = math.sqrt(sum(n * n for n in left.values()) * sum(n * n for n in right.values()))
    return shared / lengths if lengths else 0.0

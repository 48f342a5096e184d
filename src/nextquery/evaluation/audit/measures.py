"""Exposure and poisoning: what a model made of a planted log says of what was planted.

    exposure = log2(secrets of its kind) - log2(rank of the secret among them)

by the model's own score after the secret's context (The Secret Sharer). A secret that left no trace
ranks anywhere: 1.4 bits on average, and `e` bits or more with a chance of 2^-e. Knows models by
their capabilities; knows nothing of how they were made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nextquery.evaluation.audit.planting import Planted
from nextquery.suggesters.base import Suggester

SHOWN = 20
"""A secret is out if it stands among so many suggestions."""
FIRST = 5
"""A phrase has been pushed if it stands among the first so many."""


@dataclass(frozen=True)
class Exposure:
    """The secrets that so many people typed."""

    users: int
    secrets: int
    mean_bits: float
    most_bits: float
    shown: int
    """How many stand among the first 20 suggestions after their context."""


@dataclass(frozen=True)
class PoisonPoint:
    """The phrases that so many fake users pushed."""

    fake_users: int
    contexts: int
    pushed: int
    """In how many of the contexts the phrase stands among the first five suggestions."""


@dataclass(frozen=True)
class PoisonCurve:
    """How a model of one kind, under one K, gives way."""

    kind: str
    min_users: int
    points: tuple[PoisonPoint, ...]

    @property
    def needed(self) -> int | None:
        """The fewest fake users who push a phrase in half of the contexts; None: more."""
        enough = (each.fake_users for each in self.points if 2 * each.pushed >= each.contexts)
        return min(enough, default=None)


def exposure_bits(rank: float, secrets: int) -> float:
    """The exposure of a secret of that rank among so many.

    >>> exposure_bits(1, 1024), exposure_bits(512, 1024)
    (10.0, 1.0)
    """
    return float(np.log2(secrets) - np.log2(rank))


def chance_bits(secrets: int) -> float:
    """The mean exposure of secrets that left no trace.

    >>> round(chance_bits(1024), 2)
    1.44
    """
    return float(np.mean(np.log2(secrets) - np.log2(np.arange(1, secrets + 1))))


def exposures(
    model: Suggester, canaries: Sequence[Planted], decoys: Sequence[str]
) -> tuple[Exposure, ...]:
    """The exposure of canaries by how many people typed them, and whether they are shown."""
    found: dict[int, list[tuple[float, bool]]] = {}
    for each in canaries:
        shown = [item.text for item in model.suggest([each.context], SHOWN)]
        measured = _bits(model, each, decoys), each.text in shown
        found.setdefault(each.users, []).append(measured)
    return tuple(
        Exposure(
            users,
            len(some),
            float(np.mean([bits for bits, _ in some])),
            max(bits for bits, _ in some),
            sum(shown for _, shown in some),
        )
        for users, some in sorted(found.items())
    )


def _bits(model: Suggester, canary: Planted, decoys: Sequence[str]) -> float:
    scores = model.score([canary.context], [canary.text, *decoys])
    own, *others = (item.log_likelihood for item in scores)
    values = np.array(others)
    # Those that score the same come before it half of the time.
    rank = 1 + float((values > own).sum()) + 0.5 * float((values == own).sum())
    return exposure_bits(rank, len(scores))


def poison_curve(
    model: Suggester, kind: str, min_users: int, attacks: Sequence[Planted]
) -> PoisonCurve:
    """In how many contexts each number of fake users gets its phrase among the first five."""
    found: dict[int, list[bool]] = {}
    for each in attacks:
        texts = [item.text for item in model.suggest([each.context], FIRST)]
        found.setdefault(each.users, []).append(each.text in texts)
    points = tuple(
        PoisonPoint(users, len(some), sum(some)) for users, some in sorted(found.items())
    )
    return PoisonCurve(kind, min_users, points)

"""How often a suggestion was taken where it was looked at, after a query and at all.

Texts are kept as fingerprints, and only where enough visitors were shown the suggestion: nothing in
the tables can be read back, and no single visitor is in them. Exposures are weighted by how likely
the place was looked at, which takes the position bias out.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import ArtifactError
from nextquery.feedback.impressions import Impression
from nextquery.feedback.position_bias import PositionBias
from nextquery.normalise import normalise_query

PRIOR = 10.0
"""A rate is drawn towards the more general one by as many exposures."""


@dataclass(frozen=True)
class TakenRates:
    """Exposures and takes by fingerprint, in the order of fingerprints."""

    keys: NDArray[np.uint64]
    exposures: NDArray[np.float64]
    taken: NDArray[np.float64]
    overall: float
    """The rate of all suggestions."""

    def suggestion(self, text: str) -> float:
        """The rate of a suggestion after any query, drawn towards that of all."""
        exposed, taken = self._find(_key("", text))
        return (taken + PRIOR * self.overall) / (exposed + PRIOR)

    def pair(self, query: str, text: str) -> float:
        """The rate of a suggestion after a query, drawn towards that after any."""
        exposed, taken = self._find(_key(query, text))
        return (taken + PRIOR * self.suggestion(text)) / (exposed + PRIOR)

    def exposed(self, query: str, text: str) -> float:
        """How often a suggestion was looked at after a query."""
        return self._find(_key(query, text))[0]

    def _find(self, key: int) -> tuple[float, float]:
        place = int(np.searchsorted(self.keys, np.uint64(key)))
        if place == len(self.keys) or int(self.keys[place]) != key:
            return 0.0, 0.0
        return float(self.exposures[place]), float(self.taken[place])

    def check(self) -> None:
        """Refuse tables that do not fit together."""
        if not len(self.keys) == len(self.exposures) == len(self.taken):
            raise ArtifactError("its rates have different lengths")
        numbers = np.concatenate([self.exposures, self.taken, [self.overall]])
        if not np.isfinite(numbers).all() or (numbers < 0).any() or self.overall <= 0:
            raise ArtifactError("its rates are not counts")


def count_taken(
    impressions: Iterable[Impression], bias: PositionBias, min_visitors: int
) -> TakenRates:
    """The rates of all suggestions that at least `min_visitors` were shown."""
    counts: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    visitors: defaultdict[int, set[str]] = defaultdict(set)
    total = [0.0, 0.0]
    for each in impressions:
        end = min(each.taken, default=len(each.suggestions) - 1) + 1
        for place, suggestion in enumerate(each.suggestions[:end]):
            looked, took = bias.examined(place), float(place in each.taken)
            total = [total[0] + looked, total[1] + took]
            for query in ("", normalise_query(each.query)):
                key = _key(query, suggestion.text)
                counts[key][0] += looked
                counts[key][1] += took
                if len(visitors[key]) < min_visitors:
                    visitors[key].add(each.visitor)
    kept = sorted(key for key, seen in visitors.items() if len(seen) >= min_visitors)
    table = np.array([counts[key] for key in kept], dtype=np.float64).reshape(-1, 2)
    overall = (total[1] + 1) / (total[0] + 2)
    return TakenRates(np.array(kept, dtype=np.uint64), table[:, 0], table[:, 1], overall)


def _key(query: str, text: str) -> int:
    """A fingerprint of 64 bits; an empty query stands for any."""
    digest = hashlib.blake2b(f"{query}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")

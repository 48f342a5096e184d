"""Ranking cases: a context, its candidates, and which of them the user really typed next.

Knows how cases lie flat beside each other in one array (one row per candidate) and where the true
next query ranks under given scores. Does not know where candidates or scores come from.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankingCase:
    """One prediction to make.

    `candidates` are ordered by background frequency, then text: an order that does not depend on
    the context, so that breaking ties by position cannot give the answer away. `anchor` is the
    known query whose followers count (the last query, or in the long tail its known beginning).
    `length` counts the queries of the session, the target included and inserted noise not. `user`
    is whose session it is: a new visitor's own past does not count. `earlier` are queries that the
    user typed in sessions before this one, oldest first, where an experiment looks at them.
    """

    session: int
    context: tuple[str, ...]
    anchor: str
    candidates: tuple[str, ...]
    target: int
    length: int
    user: str = ""
    earlier: tuple[str, ...] = ()

    @property
    def next_query(self) -> str:
        """The query that the user typed next."""
        return self.candidates[self.target]


@dataclass(frozen=True)
class CaseSet:
    """Cases of one split, with the layout of their candidates in flat arrays."""

    cases: tuple[RankingCase, ...]

    def __len__(self) -> int:
        return len(self.cases)

    @cached_property
    def sizes(self) -> Integers:
        """The number of candidates of each case."""
        return np.array([len(case.candidates) for case in self.cases], dtype=np.int64)

    @cached_property
    def starts(self) -> Integers:
        """Where each case's candidates begin in a flat array."""
        return np.concatenate([[0], np.cumsum(self.sizes)])[:-1].astype(np.int64)

    @cached_property
    def targets(self) -> Integers:
        """Where each case's true next query stands in a flat array."""
        places = np.array([case.target for case in self.cases], dtype=np.int64)
        return self.starts + places

    @cached_property
    def owners(self) -> Integers:
        """The number of the case that each flat candidate belongs to."""
        return np.repeat(np.arange(len(self.cases)), self.sizes)

    @cached_property
    def texts(self) -> list[str]:
        """All candidates, flat."""
        return [candidate for case in self.cases for candidate in case.candidates]

    @property
    def rows(self) -> int:
        """The number of candidates of all cases."""
        return int(self.sizes.sum())

    def ranks(self, scores: Floats) -> Integers:
        """The rank of each true next query, 1 the best; ties go to the earlier candidate."""
        if not self.cases:
            return np.zeros(0, dtype=np.int64)
        values = np.where(np.isnan(scores), -np.inf, scores)
        wanted = values[self.targets][self.owners]
        ahead = (values > wanted) | ((values == wanted) & self._before_targets)
        return 1 + np.add.reduceat(ahead, self.starts, dtype=np.int64)

    @cached_property
    def _before_targets(self) -> NDArray[np.bool_]:
        """Whether each flat candidate stands before its case's true next query."""
        return np.arange(self.rows) < self.targets[self.owners]

    def select(self, wanted: Iterable[bool] | NDArray[np.bool_]) -> "CaseSet":
        """The cases marked in `wanted`."""
        pairs = zip(self.cases, wanted, strict=True)
        return CaseSet(tuple(case for case, keep in pairs if keep))


def reciprocal_ranks(cases: CaseSet, scores: Floats) -> Floats:
    """One over the rank of each case's true next query."""
    return 1.0 / cases.ranks(scores)


def canonical_order(candidates: Sequence[str], frequencies: Sequence[int]) -> tuple[str, ...]:
    """Candidates by frequency, highest first, then by text."""
    pairs = sorted(zip(candidates, frequencies, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return tuple(text for text, _ in pairs)

"""QVMM: the query variable-memory Markov model after He et al. (ICDE 2009).

A suffix tree over the background's query sequences gives the probability of the next query after
the longest known part of the session, backing off to shorter parts (formula in
`suffix_tree.py`). A last query never seen loses words from its end, as in `adjacency.py`. Queries
are whole units; their words do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field

from nextquery.artifacts import Artifact
from nextquery.records import Suggestion
from nextquery.suggesters.background import (
    AgingSettings,
    Background,
    Known,
    count_background,
    heaviest_first,
)
from nextquery.suggesters.count_suggester import CountSuggester, seen
from nextquery.suggesters.suffix_tree import SuffixTree, grow_tree

if TYPE_CHECKING:
    from nextquery.suggesters.sequences import BackgroundLog


class QVMMSettings(AgingSettings):
    """The size of the tree and how it backs off."""

    depth: int = Field(default=5, ge=1, le=20)
    """The longest part of a session that is looked at, in queries."""
    pruning: float = Field(default=0.05, ge=0)
    """A sequence is left out when its followers diverge less than this (KL, nats) from those of
    the sequence without its oldest query."""
    escape: float = Field(default=10.0, gt=0)
    """The imaginary observations that each sequence leaves to the shorter one."""
    shorten: bool = True
    """Drop words from the end of a last query never seen until a seen one remains."""


class QVMM(CountSuggester[QVMMSettings]):
    """The most probable next queries after the longest known part of the session."""

    kind = "qvmm"
    settings_type = QVMMSettings

    def __init__(self, settings: QVMMSettings, background: Background, tree: SuffixTree) -> None:
        super().__init__(settings, background)
        self.tree = tree

    def matched(self, context: Sequence[str]) -> int:
        """How many of the last queries of a normalised context are a known sequence."""
        return len(self.tree.match(self._known(context).queries))

    def best(self, context: Sequence[str], limit: int) -> list[Suggestion]:
        """The most probable followers; none after a last query that nothing is known of."""
        known_part = self._known(context)
        path = self.tree.match(known_part.queries)
        if context and not path:
            return []
        symbols, probabilities = self.tree.best(path, limit)
        return [
            Suggestion(
                self.background.text(query),
                log(probability),
                self._source(path, query, known_part.shortened_to),
            )
            for query, probability in zip(symbols.tolist(), probabilities.tolist(), strict=True)
        ]

    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """The smoothed probability; a text that is not a known query escapes all the way."""
        path = self.tree.match(self._known(context).queries)
        known = [self.background.id(candidate) for candidate in candidates]
        ids = np.array([query for query in known if query is not None], np.int64)
        probabilities = iter(self.tree.probabilities(path, ids).tolist())
        # The prior of an unknown query already holds the first escape, 1 / (total + 1).
        escaped = log(self.tree.escapes(path) * (self.tree.total + 1))
        return [
            escaped + self.background.log_prior(candidate)
            if query is None
            else log(next(probabilities))
            for query, candidate in zip(known, candidates, strict=True)
        ]

    def write(self, folder: Path) -> None:
        """Write the tree."""
        self.tree.save(folder)

    @classmethod
    def read(cls, artifact: Artifact, settings: QVMMSettings, background: Background) -> Self:
        """Map the tree."""
        tree = SuffixTree.load(artifact, background.counts, settings.escape)
        return cls(settings, background, tree)

    def check(self) -> None:
        """Refuse contents that do not fit together."""
        super().check()
        self.tree.check()

    def _known(self, context: Sequence[str]) -> Known:
        return self.background.newest_known(
            context[-self.settings.depth :], shorten=self.settings.shorten
        )

    def _source(self, path: Sequence[int], query: int, shortened_to: str | None) -> str:
        length, count = self.tree.evidence(path, query)
        if not length:
            return seen(count)
        after = "after the last query" if length == 1 else f"after the last {length} queries"
        if shortened_to is not None:
            after += f", read as {shortened_to!r}: it was never seen"
        return seen(count, after)


def fit_qvmm(log: BackgroundLog, settings: QVMMSettings) -> QVMM:
    """Count sequences of every length up to the depth and grow the tree."""
    import polars as pl

    from nextquery.suggesters.sequences import following, useful_factors, weigh_symbols

    background = count_background(log.data)
    known_log = log.known()
    ids = pl.Series("symbol", background.ids(known_log["query"].to_list()))
    ages = log.ages(settings)
    rows = log.symbols(known_log.with_columns(ids), by_day=settings.ages)
    levels = following(log, rows, settings.depth, ages)
    tree = grow_tree(
        weigh_symbols(levels, useful_factors(log, background, settings.useful_weight)),
        background.counts,
        heaviest_first(background, background.counts),
        pruning=settings.pruning,
        escape=settings.escape,
    )
    return QVMM(settings, background, tree)

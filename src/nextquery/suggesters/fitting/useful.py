"""Counts in which useful queries count for more (`logs/usefulness.py` says which are).

    factor(q) = 1 + (useful_weight - 1) * p(q)
    p(q)      = (useful occurrences of q + 10 * p) / (occurrences of q + 10)

with `p` the same share over all known queries: how useful a query is, is told by all its
occurrences, and a rare one is taken for an ordinary one. An engine counts; the rest is worked out
here, in one order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.logs.usefulness import NO_CLICKS, UNDECIDED, USEFUL, undecided_share, with_usefulness
from nextquery.suggesters.background import Background
from nextquery.suggesters.fitting.sequences import BackgroundLog, collected

Floats = NDArray[np.float64]

ORDINARY = 10.0
"""Imaginary occurrences of every query that were as useful as all are together."""


@dataclass(frozen=True)
class UsefulCounts:
    """How often each known query was typed, and how many of those times it was useful."""

    typed: Floats
    useful: Floats
    """Undecided ones with their share."""

    def factors(self, weight: float, groups: NDArray[Any] | None = None) -> Floats:
        """What a count of each query is multiplied by; with `groups`, one factor per group.

        >>> counts = UsefulCounts(np.array([10.0, 30.0]), np.array([10.0, 10.0]))
        >>> counts.factors(3).tolist()  # 15/20 and 15/40 of the times
        [2.5, 1.75]
        """
        typed, useful = self.typed, self.useful
        if groups is not None:
            typed = np.bincount(groups, typed).astype(np.float64)
            useful = np.bincount(groups, useful).astype(np.float64)
        ordinary = useful.sum() / typed.sum()
        share = (useful + ORDINARY * ordinary) / (typed + ORDINARY)
        return np.asarray(1 + (weight - 1) * share, dtype=np.float64)


def useful_counts(log: BackgroundLog, background: Background) -> UsefulCounts:
    """Count the background's useful queries; a log without clicks is refused."""
    marks = [nw.col(name).cast(nw.Int64).sum().alias(name) for name in (USEFUL, UNDECIDED)]
    clicked = (nw.col("clicks") > 0).cast(nw.Int64).alias("clicked")
    rows = with_usefulness(log.rows()).with_columns(clicked)
    sums = [nw.len().alias("typed"), *marks, nw.col("clicked").sum()]
    found = collected(rows.group_by("query").agg(*sums)).sort("query")
    if not found["clicked"].sum():
        raise InputError(f"{log.data.path}: {NO_CLICKS}; leave out `useful_weight`")
    useful, undecided = found[USEFUL].cast(pl.Float64), found[UNDECIDED].cast(pl.Float64)
    followed = int(found["clicked"].sum()) - int(found[UNDECIDED].sum())
    share = undecided_share(int(found[USEFUL].sum()), followed)
    known = pl.Series([query in background.queries for query in found["query"]], dtype=pl.Boolean)
    ids = background.ids(found["query"].filter(known).to_list())
    arrays = np.zeros((2, len(background.counts)))
    arrays[0, ids] = found["typed"].filter(known).to_numpy()
    arrays[1, ids] = (useful + undecided * share).filter(known).to_numpy()
    return UsefulCounts(arrays[0], arrays[1])


def useful_factors(log: BackgroundLog, background: Background, weight: float) -> Floats | None:
    """What a count of each known query is multiplied by; None where all are the same."""
    return None if weight == 1 else useful_counts(log, background).factors(weight)


def weigh_symbols(levels: Sequence[pl.DataFrame], factors: Floats | None) -> list[pl.DataFrame]:
    """Counted sequences (..., symbol, count), each count times the factor of its symbol."""
    if factors is None:
        return list(levels)
    return [
        level.with_columns(
            count=level["count"].cast(pl.Float64) * pl.Series(factors[level["symbol"].to_numpy()])
        )
        for level in levels
    ]

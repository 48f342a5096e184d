"""What a user typed in sessions before the one that is to be predicted.

Knows the times of a data folder's sessions and the features that come of earlier queries. Only what
was over before a session began counts, of whatever split. Users whom the log is not to know
(`unseen_users`) have no earlier queries; new visitors are not given any by the experiment.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.ranking.cases import CaseSet, Floats
from nextquery.ranking.features import trigram_cosines

EARLIER = "earlier_"
"""Begins the name of a form of a score that is given the earlier queries, too."""

SIMILARITY = "earlier_similarity_"
"""Begins the name of a feature: trigram cosine with an earlier query, 1 being the latest."""


@dataclass(frozen=True)
class EarlierQueries:
    """Up to `limit` queries that the user typed before a session, oldest first, by session."""

    limit: int
    by_session: Mapping[int, tuple[str, ...]]

    def added_to(self, cases: CaseSet) -> CaseSet:
        """The cases with the earlier queries of their sessions.

        >>> from nextquery.ranking.cases import RankingCase
        >>> cases = CaseSet((RankingCase(7, ("b",), "b", ("c", "d"), 0, 2),))
        >>> EarlierQueries(3, {7: ("a",)}).added_to(cases).cases[0].earlier
        ('a',)
        """
        found = self.by_session
        return CaseSet(
            tuple(replace(case, earlier=found.get(case.session, ())) for case in cases.cases)
        )


def read_earlier_queries(data: PreparedData, limit: int) -> EarlierQueries:
    """The last `limit` queries of each session's user from sessions that were over before.

    A session that begins at the very moment another one ends does not see it.
    """
    splits = [split for split in data.splits if split != UNSEEN_USERS]
    rows = pl.concat([data.session_rows(split).select(_COLUMNS) for split in splits])
    sessions = (
        rows.sort("session", "position")
        .group_by("session", maintain_order=True)
        .agg(pl.first("user"), start=pl.min("time"), end=pl.max("time"), queries="query")
        .sort("user", "start", "session")
        .select("user", "session", "start", "end", "queries")
    )
    found: dict[int, tuple[str, ...]] = {}
    for _, own in groupby(sessions.collect().iter_rows(), key=itemgetter(0)):
        found |= _earlier_of_user([row[1:] for row in own], limit)
    return EarlierQueries(limit, found)


_COLUMNS = ("session", "position", "user", "time", "query")


def _earlier_of_user(
    sessions: list[tuple[int, Any, Any, list[str]]], limit: int
) -> dict[int, tuple[str, ...]]:
    """By session; the given ones are (session, start, end, queries) in the order of their starts.

    Sessions may overlap, as those of a log that names its sessions itself.
    """
    found = {}
    ended = iter(sorted(sessions, key=itemgetter(2, 0)))
    following = next(ended, None)
    history: deque[str] = deque(maxlen=limit)
    for session, start, _, _ in sessions:
        while following is not None and following[2] < start:
            history.extend(following[3])
            following = next(ended, None)
        if history:
            found[session] = tuple(history)
    return found


def lengthened(cases: CaseSet) -> CaseSet:
    """The same cases with the earlier queries in front of their contexts."""
    return CaseSet(
        tuple(replace(case, context=(*case.earlier, *case.context)) for case in cases.cases)
    )


def earlier_similarities(cases: CaseSet, limit: int) -> dict[str, Floats]:
    """Cosines of character trigrams between each candidate and each earlier query, latest first."""
    latest = [case.earlier[::-1] for case in cases.cases]
    columns = trigram_cosines(cases, latest, limit)
    return {f"{SIMILARITY}{back}": column for back, column in enumerate(columns, start=1)}

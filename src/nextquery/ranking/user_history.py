"""A user's own background sessions: what must not count when the user is a new visitor.

Knows sessions and texts. Which counts they are taken away from is the business of others.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import polars as pl

from nextquery.logs.data_folder import PreparedData


@dataclass(frozen=True)
class UserHistory:
    """The queries of each background session of one user, oldest first.

    >>> history = UserHistory((("cars", "red cars"), ("cars", "buses")))
    >>> history.frequencies["cars"], history.followers["cars"]["buses"], history.words["cars"]
    (2, 1, 3)
    """

    sessions: tuple[tuple[str, ...], ...]

    @cached_property
    def frequencies(self) -> Counter[str]:
        """How often the user typed each query."""
        return Counter(query for session in self.sessions for query in session)

    @cached_property
    def followers(self) -> dict[str, Counter[str]]:
        """How often each query followed another in the user's sessions."""
        found: dict[str, Counter[str]] = {}
        for session in self.sessions:
            for anchor, following in pairwise(session):
                found.setdefault(anchor, Counter())[following] += 1
        return found

    @cached_property
    def words(self) -> Counter[str]:
        """How often the user typed each word."""
        return Counter(
            word for session in self.sessions for query in session for word in query.split()
        )


@dataclass(frozen=True)
class RarestTexts:
    """Queries and words that exactly as many users typed as the K-user rule asks for.

    Without one of these users nobody may know them.
    """

    queries: frozenset[str]
    words: frozenset[str]


def read_histories(data: PreparedData, users: Collection[str]) -> dict[str, UserHistory]:
    """The background sessions of the users who have any."""
    wanted = pl.LazyFrame({"user": sorted(users)}, schema={"user": pl.String})
    rows = data.session_rows("background").join(wanted, on="user", how="semi")
    sessions = rows.group_by("user", "session").agg(pl.col("query").sort_by("position"))
    ordered = sessions.sort("user", "session").group_by("user", maintain_order=True).agg("query")
    return {
        user: UserHistory(tuple(map(tuple, lists))) for user, lists in ordered.collect().iter_rows()
    }


def read_rarest(data: PreparedData) -> RarestTexts:
    """What one user less makes unknown, from the count tables."""
    at_limit = pl.col("users") <= data.min_users
    texts: Mapping[str, frozenset[str]] = {
        table: frozenset(data.counts(table).filter(at_limit).select(column).collect()[column])
        for table, column in (("queries", "query"), ("words", "word"))
    }
    return RarestTexts(texts["queries"], texts["words"])

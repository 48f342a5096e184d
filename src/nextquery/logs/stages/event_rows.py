"""The rows of a log as numbers: which tables they are, and what their ids stand for."""

from collections.abc import Mapping
from dataclasses import dataclass

from nextquery.logs.engines.base import Frame


@dataclass(frozen=True)
class Texts:
    """What the ids stand for: pseudonyms of users, normalised queries, clicked URLs."""

    users: Frame
    queries: Frame
    urls: Frame


@dataclass(frozen=True)
class Events:
    """The rows that are kept: user_id, held_out, time, row, query_id, url_id."""

    rows: Frame
    texts: Texts


@dataclass(frozen=True)
class RowCounts:
    """The users of the accepted rows, and the rows left out by reason."""

    users: int
    rows_dropped: Mapping[str, int]

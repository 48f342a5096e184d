"""A made-up query log in AOL format, with known structure, for the demo, tests and benchmarks.

Knows the file: its lines are joined from pieces, some hundred thousand at a time and two parts
side by side. The same settings give the same bytes on every machine. docs/synthetic.md describes
the structure.
"""

import gzip
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import polars as pl
import pyarrow as pa

from nextquery.artifacts import replaced_file
from nextquery.errors import InputError
from nextquery.logs.synthetic.drawn_log import (
    MOST_SESSIONS,
    DrawnLog,
    Satisfaction,
    check_satisfaction,
    draw_log,
)
from nextquery.logs.synthetic.draws import Integers
from nextquery.logs.synthetic.pieces import QueryPieces, as_strings, query_pieces
from nextquery.logs.synthetic.walks import Hidden
from nextquery.records import Session

__all__ = [
    "MOST_SESSIONS",
    "LogSummary",
    "Satisfaction",
    "SyntheticLog",
    "check_satisfaction",
    "make_log",
    "write_log",
]

_HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
_FIRST_USER = 1000
_DAY = 86_400
_NEXT_PAGE_SECONDS = 20
_RANKS, _RESULTS = ("1", "4", "7"), ("www.", "en.", "shop.")
_SESSIONS = 1 << 16
"""Sessions that are written at a time."""


@dataclass(frozen=True)
class SyntheticLog:
    """A made-up log before it is written: one row per query, in the order of sessions.

    `queries` has session, user, time (epoch seconds), text, url and clicks, and what no log says:
    role, entity, intent and slip, and where satisfaction was drawn, satisfied. `hidden` has the
    user, domain and intent of each session.
    """

    queries: pl.DataFrame
    hidden: Hidden

    def sessions(self, domain: int | None = None) -> list[Session]:
        """The sessions as a model reads them, of one domain or of all; domain 0 has the most.

        >>> make_log(50, seed=1).sessions(domain=0)[3].queries
        ('paris stroller friendly', 'paris aquarium')
        """
        rows = self.queries.select("session", "user", "text")
        if domain is not None:
            rows = rows.filter(self.hidden.domain[rows["session"].to_numpy()] == domain)
        found = rows.group_by("session", maintain_order=True).agg(pl.col("user").first(), "text")
        return [Session(id, str(user), tuple(texts)) for id, user, texts in found.iter_rows()]


@dataclass(frozen=True)
class LogSummary:
    """What a made-up log holds."""

    rows: int
    users: int
    distinct_queries: int
    first: str
    last: str


def make_log(
    sessions: int,
    seed: int,
    *,
    shuffled: bool = False,
    satisfaction: Satisfaction = "none",
    extra_words: int = 0,
) -> SyntheticLog:
    """A log in memory, with what no file says; the options are those of `draw_log`."""
    log = draw_log(
        sessions, seed, shuffled=shuffled, satisfaction=satisfaction, extra_words=extra_words
    )
    pieces, texts, address = query_pieces(log.lexicon).places(log.queries)
    queries = log.queries.drop("first", "second", "third", "slip_number").with_columns(
        text=pl.Series(pieces.joined(texts)),
        url=pl.Series(pieces.joined([address])),
        slip=log.queries["slip_number"] >= 0,
    )
    return SyntheticLog(queries, log.hidden)


def write_log(
    out: Path,
    sessions: int,
    seed: int,
    *,
    shuffled: bool = False,
    titles: Path | None = None,
    satisfaction: Satisfaction = "none",
    extra_words: int = 0,
) -> LogSummary:
    """Write a made-up log, gzipped if the name ends in `.gz`.

    With `titles`, a file of what the made-up site has, too: a query that no title holds is one
    with a slip and finds nothing.
    """
    if out.is_dir():
        raise InputError(f"{out}: a folder; give the name of a file")
    log = draw_log(
        sessions, seed, shuffled=shuffled, satisfaction=satisfaction, extra_words=extra_words
    )
    pieces = query_pieces(log.lexicon)
    texts = _different_texts(log, pieces)
    if titles is not None:
        right = texts.filter(~pl.col("slip"))["text"].unique().sort()
        with _replaced_file(titles) as stream:
            stream.write("".join(f"{title}\n" for title in right).encode())
    with _replaced_file(out) as stream:
        stream.write(_HEADER.encode())
        for lines in _LineMaker(log, pieces).parts():
            stream.write(lines)
    return _summary(log, texts["text"].n_unique())


def _different_texts(log: DrawnLog, query_pieces: QueryPieces) -> pl.DataFrame:
    """The texts of the log and whether they are slips, each at least once."""
    columns = ("first", "second", "third", "slip_number")
    # Other columns are for addresses only, which are of no interest here.
    others = ("entity", "intent", "role")
    drawn = log.queries.select(columns).unique(maintain_order=True)
    drawn = drawn.with_columns(pl.lit(0).alias(name) for name in others)
    pieces, texts, _ = query_pieces.places(drawn)
    return pl.DataFrame(
        {"text": pl.Series(pieces.joined(texts)), "slip": drawn["slip_number"] >= 0}
    )


def _summary(log: DrawnLog, distinct_queries: int) -> LogSummary:
    queries = log.queries
    later = pl.when("pages").then((pl.col("clicks") - 1).clip(0)).otherwise(0)
    times = queries.select(
        first=pl.col("time").min(), last=(pl.col("time") + later * _NEXT_PAGE_SECONDS).max()
    )
    first, last = (datetime.fromtimestamp(time, UTC) for time in times.row(0))
    return LogSummary(
        rows=int(queries["clicks"].cast(pl.Int64).clip(1).sum()),
        users=queries["user"].n_unique(),
        distinct_queries=distinct_queries,
        first=f"{first:%Y-%m-%d %H:%M:%S}",
        last=f"{last:%Y-%m-%d %H:%M:%S}",
    )


class _LineMaker:
    """Makes the lines of a log: one per click, or one without a click; by user, then by time."""

    def __init__(self, log: DrawnLog, query_pieces: QueryPieces) -> None:
        self._queries = log.queries
        session = log.queries["session"].to_numpy()
        starts = np.flatnonzero(np.append(True, session[1:] != session[:-1]))
        self._starts, self._ends = starts, np.append(starts[1:], len(session))
        user, time = (log.queries[name].to_numpy()[starts] for name in ("user", "time"))
        # Sessions of a user do not overlap: sorting them sorts their queries.
        self._order = np.argsort(user.astype(np.int64) * (1 << 32) + time, kind="stable")
        pieces = query_pieces.pieces.copy()
        self._texts = replace(query_pieces, pieces=pieces)
        self._line_end = pieces.add(["\n"])
        clicked = (f"{rank}\thttp://{result}" for rank in _RANKS for result in _RESULTS)
        self._clicked = pieces.add(["\t", *clicked])
        # Which result a line's click is on follows the order in which the lines were drawn, not
        # that in which they are written: logs of a seed must stay what they were.
        copies = np.maximum(log.queries["clicks"].to_numpy(), 1)
        self._results = _running(copies).astype(np.int8)
        counts = np.add.reduceat(copies, starts, dtype=np.int64)[self._order]
        self._lines_before = np.append(0, np.cumsum(counts))  # by the place of the session
        self._second = pieces.add(
            f"{hour:02}:{minute:02}:{second:02}\t"
            for hour in range(24)
            for minute in range(60)
            for second in range(60)
        )
        self._first_day = int(log.queries["time"].min() or 0) // _DAY  # type: ignore[arg-type]
        last_day = int(log.queries["time"].max() or 0) // _DAY + 1  # type: ignore[arg-type]
        self._day = pieces.add(
            f"\t{datetime.fromtimestamp(day * _DAY, UTC):%Y-%m-%d} "
            for day in range(self._first_day, last_day + 1)
        )

    def parts(self) -> Iterator[pa.Buffer]:
        """The lines, as bytes to write one after the other."""
        waiting: deque[Future[pa.Buffer]] = deque()
        with ThreadPoolExecutor(2) as pool:
            for start in range(0, len(self._order), _SESSIONS):
                waiting.append(pool.submit(self._lines, start))
                if len(waiting) > 2:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _lines(self, start: int) -> pa.Buffer:
        sessions = self._order[start : start + _SESSIONS]
        queries = self._queries[_ranges(self._starts[sessions], self._ends[sessions])]
        pieces, texts, address = self._texts.places(queries)
        copies = np.maximum(queries["clicks"].to_numpy(), 1)
        query = np.repeat(np.arange(len(queries)), copies)
        click = _running(copies)
        paged = queries["pages"].to_numpy()[query]
        time = queries["time"].to_numpy()[query] + np.where(paged, click * _NEXT_PAGE_SECONDS, 0)
        user = queries["user"].to_numpy()
        key = user[query].astype(np.int64) * (1 << 32) + time
        if (key[1:] < key[:-1]).any():  # a click on a later page may come after the next query
            order = np.argsort(key, kind="stable")
            query, click, time = query[order], click[order], time[order]
        clicked = (queries["clicks"].to_numpy() > 0)[query]
        lines_before = self._lines_before[start]
        result = self._results[lines_before : lines_before + len(query)]
        first_user = int(user.min())
        users = pieces.add(_user_names(first_user, int(user.max())))
        lines = pieces.joined(
            [
                users + user[query] - first_user,
                *(column[query] for column in texts),
                self._day + time // _DAY - self._first_day,
                self._second + time % _DAY,
                self._clicked + np.where(clicked, 1 + click * len(_RESULTS) + result, 0),
                np.where(clicked, address[query], self._texts.later),  # which begins with nothing
                np.full(len(query), self._line_end),
            ]
        )
        return lines.buffers()[2]


def _user_names(first: int, last: int) -> pa.LargeStringArray:
    numbers = pl.int_range(first + _FIRST_USER, last + _FIRST_USER + 1, eager=True)
    names = pl.DataFrame({"number": numbers}).select(pl.format("{}\t", "number")).to_series()
    return as_strings(names)


def _ranges(starts: Integers, ends: Integers) -> Integers:
    """All numbers from each start to its end, one range after the other."""
    lengths = ends - starts
    return np.repeat(starts, lengths) + _running(lengths)


def _running(counts: Integers) -> Integers:
    """0, 1, ..., n - 1 for each n of `counts`."""
    ends = np.cumsum(counts, dtype=np.int64)
    return np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)


@contextmanager
def _replaced_file(out: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the name `out` only when it is complete."""
    with replaced_file(out, make_folders=True) as stream:
        if out.suffix == ".gz":
            # Neither name nor time in the header: the same log is the same bytes.
            with gzip.GzipFile("", "wb", 6, stream, mtime=0) as compressed:
                yield cast(BinaryIO, compressed)
        else:
            yield stream

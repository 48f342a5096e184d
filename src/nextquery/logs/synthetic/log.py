"""Synthetic query logs in AOL format with known structure, for the demo, tests and benchmarks."""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Literal, TypedDict, Unpack, cast, get_args

import numpy as np
import polars as pl

from nextquery.artifacts import replaced_file
from nextquery.errors import InputError
from nextquery.logs.reading.read_logs import side_by_side
from nextquery.logs.synthetic.queries import (
    INTENTS,
    OUTCOMES,
    Draws,
    Flags,
    Hidden,
    Integers,
    Lexicon,
    Role,
    draw_queries,
    draw_sessions,
    load_lexicon,
)
from nextquery.records import Session


class QueryTexts:
    """The texts of drawn queries, and the addresses that their clicks go to.

    `.example` is reserved: no such address belongs to anybody.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        phrases = lexicon.phrases
        start = lexicon.starts["entities"]
        names = phrases[start : start + len(lexicon.domains) * lexicon.entities]
        self._first = pl.Series(phrases)
        self._later = pl.Series([f" {phrase}" if phrase else "" for phrase in phrases])
        # Of each phrase; then of each entity on its own and with each intent of its domain.
        entities = (
            text
            for number, name in enumerate(names)
            for text in (name, *(f"{name}-{intent}" for intent in _intents(lexicon, number)))
        )
        self._addresses = pl.Series(map(_address, (*phrases, *entities)))

    def make(self, drawn: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """The text and the address of every query."""
        first, second, third = (drawn[name] for name in ("first", "second", "third"))
        text = self._first.gather(first) + self._later.gather(second) + self._later.gather(third)
        entity, intent, role = (drawn[name].to_numpy() for name in ("entity", "intent", "role"))
        by_text = (role == Role.NAVIGATION) | (role == Role.FAMILY)
        intent_number = np.where(intent < 0, 0, intent % INTENTS + 1)
        of_entity = len(self._first) + entity.astype(np.int64) * (INTENTS + 1) + intent_number
        address = self._addresses.gather(np.where(by_text, first.to_numpy(), of_entity))
        slipped = (drawn["slip_number"] >= 0).arg_true()
        numbers = drawn["slip_number"].gather(slipped)
        wrong = pl.Series(map(slip, text.gather(slipped), numbers), dtype=pl.String)
        changed = pl.Series(by_text[slipped.to_numpy()])
        address = address.scatter(slipped.filter(changed), [*map(_address, wrong.filter(changed))])
        return text.scatter(slipped, wrong), address


def _intents(lexicon: Lexicon, entity: int) -> tuple[str, ...]:
    first = entity // lexicon.entities * INTENTS
    return lexicon.intents[first : first + INTENTS]


def _address(text: str) -> str:
    return f"{text.replace(' ', '-')}.example"


def slip(text: str, number: int) -> str:
    """Swap, drop or double a letter inside a word.

    >>> slip("paris hotels", 7), slip("paris hotels", 3), slip("paris hotels", 2)
    ('pars hotels', 'pairs hotels', 'paaris hotels')
    """
    inner = _inner(text)
    if not inner:
        return text + text[-1]
    position = inner[(number // 3) % len(inner)]
    pair = text[position : position + 2]
    changed = (pair[::-1], pair[1], pair[0] + pair)[number % 3]
    return text[:position] + changed + text[position + 2 :]


@lru_cache(maxsize=1 << 16)
def _inner(text: str) -> tuple[int, ...]:
    """Where a slip can be: between two letters of a word, and not between equal ones."""
    return tuple(
        position
        for position in range(1, len(text) - 2)
        if text[position - 1 : position + 2].isalpha() and text[position] != text[position + 1]
    )


MOST_SESSIONS = 50_000_000
"""More than any machine has made at once; the log is made in memory."""
Satisfaction = Literal["none", "outcome", "chance"]
"""Whether users are satisfied: nothing is said of it, by the outcome, or by chance."""
_SPAN_DAYS = 91  # from 1 March 2006, the span of the paper's log
_FIRST_SECOND = 1_141_171_200  # 2006-03-01 00:00:00 in epoch seconds
# How busy each hour of the day is.
_HOURS = np.array([3, 2, 1, 1, 1, 2, 3, 5, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 9, 10, 10, 9, 7, 5])
_SHORTEST_PAUSE, _LONGEST_PAUSE = 75, 1200  # seconds between the queries of a session
_BETWEEN_SESSIONS = 45 * 60
_CLICKS = np.array([35, 45, 14, 6])  # percentages of 0, 1, 2, 3 clicks
SATISFYING = (1, 3)  # the numbers of the outcomes that mostly satisfy; 0 is the most frequent
# Percentages of satisfied users: after outcomes that satisfy, after others, after other queries.
_SATISFIED, _DISAPPOINTED, _ELSE = 85, 20, 50
_CLICKS_IN_VAIN = 50  # percentage of disappointed users who clicked, and searched again at once
_SHORTEST_HURRY, _LONGEST_HURRY = 10, 45  # seconds until a disappointed user searches again
_NEXT_PAGE = 20  # percentage of queries whose later clicks are on further result pages


@dataclass(frozen=True)
class DrawnLog:
    """One row per query, in the order of sessions; a log of any size is kept like this.

    `queries` has session, user, time (epoch seconds), clicks, role, entity, intent, and where it
    was drawn, satisfied; for text and url `first`, `second` and `third`, which are places in the
    lexicon, and `slip_number`, which says how a slip is made; -1 where there is none.
    """

    queries: pl.DataFrame
    hidden: Hidden
    lexicon: Lexicon


def check_satisfaction(text: str) -> Satisfaction:
    """The kind of satisfaction with this name; others are refused."""
    choices = get_args(Satisfaction)
    if text not in choices:
        raise InputError(f"`satisfaction` {text}: must be one of {', '.join(choices)}")
    return cast(Satisfaction, text)


class LogOptions(TypedDict, total=False):
    """Options of `draw_log` that functions pass on."""

    shuffled: bool
    satisfaction: Satisfaction
    extra_words: int
    domains: Sequence[str]


def draw_log(
    sessions: int,
    seed: int,
    *,
    shuffled: bool = False,
    satisfaction: Satisfaction = "none",
    extra_words: int = 0,
    domains: Sequence[str] = (),
) -> DrawnLog:
    """Draw a log. `shuffled` gives the control: the same queries, dealt to sessions at random.

    With `satisfaction` the queries have a column `satisfied`, and clicks and pauses follow from it:
    by the outcome that was searched for, or, as its control, by chance. With `extra_words` invented
    names of things to search for make the vocabulary larger. `domains` limits what people search
    for, as on a shop's site; the default is all 16.
    """
    if sessions < 1:
        raise InputError(f"a synthetic log needs at least 1 session, not {sessions}")
    if sessions > MOST_SESSIONS:
        raise InputError(f"`sessions` {sessions}: at most {MOST_SESSIONS:,} fit into memory")
    if seed < 0:
        raise InputError(f"the seed must not be negative, as {seed} is")
    lexicon, draws = load_lexicon(extra_words, tuple(domains)), Draws(seed)
    hidden = draw_sessions(draws, len(lexicon.domains), sessions)
    queries = draw_queries(draws, lexicon, hidden)
    slipped = queries["slip"].arg_true().to_numpy()
    slip_numbers = np.full(len(queries), -1, dtype=np.int32)
    slip_numbers[slipped] = draws.below(2**30, len(slipped))
    queries = queries.drop("slip").with_columns(slip_number=pl.Series(slip_numbers))
    session = queries["session"].to_numpy()
    hurried: Flags = np.zeros(len(queries), dtype=np.bool_)
    if satisfaction != "none":
        satisfied = _satisfied(draws, lexicon, queries, by_chance=satisfaction == "chance")
        in_vain = ~satisfied & draws.chance(_CLICKS_IN_VAIN, len(queries))
        hurried = in_vain
        queries = queries.with_columns(satisfied=pl.Series(satisfied))
    time = _times(draws, session, hidden.user, hurried)
    clicks = draws.weighted(_CLICKS, len(queries)).astype(np.int8)
    if satisfaction != "none":
        clicks = np.where(satisfied | in_vain, np.maximum(clicks, 1), 0)
    pages = draws.chance(_NEXT_PAGE, len(queries))
    queries = queries.with_columns(clicks=pl.Series(clicks), pages=pl.Series(pages))
    new_columns = {"session": session, "user": hidden.user[session].astype(np.int32), "time": time}
    if shuffled:
        queries = queries[draws.permutation(len(queries))]
    placed = queries.with_columns(pl.Series(name, values) for name, values in new_columns.items())
    return DrawnLog(placed, hidden, lexicon)


def _satisfied(draws: Draws, lexicon: Lexicon, drawn: pl.DataFrame, *, by_chance: bool) -> Flags:
    """Which queries gave their users what they wanted."""
    role, intent = drawn["role"].to_numpy(), drawn["intent"].to_numpy()
    is_outcome = role == Role.OUTCOME
    number = drawn["second"].to_numpy() - lexicon.starts["outcomes"] - intent * OUTCOMES
    percent = np.where(np.isin(number, SATISFYING), _SATISFIED, _DISAPPOINTED)
    percent = np.where(is_outcome & (not by_chance), percent, _ELSE)
    satisfied: Flags = draws.below(100, len(drawn)) < percent
    return satisfied


def _times(draws: Draws, session: Integers, user: Integers, hurried: Flags) -> Integers:
    """Epoch seconds of every query: pauses within a session, longer ones between a user's.

    After a query that was `hurried` the next one comes at once. `user` is that of each session.
    """
    count, size = len(user), len(session)
    first = np.append(True, session[1:] != session[:-1])
    after_hurry = np.append(False, hurried[:-1])

    roots = draws.below(1000, size)  # squared: most are short
    pause = _SHORTEST_PAUSE + roots * roots * (_LONGEST_PAUSE - _SHORTEST_PAUSE) // 1_000_000
    hurry = _SHORTEST_HURRY + roots * (_LONGEST_HURRY - _SHORTEST_HURRY) // 1000
    elapsed = np.cumsum(np.where(first, 0, np.where(after_hurry, hurry, pause)))
    starts = np.flatnonzero(first)
    lasted = elapsed[np.append(starts[1:], size) - 1] - elapsed[starts]
    day = draws.below(_SPAN_DAYS, count)
    second = draws.weighted(_HOURS, count) * 3600 + draws.below(3600, count)
    start = _separate_sessions(user, day * 86_400 + second, lasted + _BETWEEN_SESSIONS)
    elapsed += (_FIRST_SECOND + start - elapsed[starts])[session]
    return elapsed


def _separate_sessions(user: Integers, start: Integers, taken: Integers) -> Integers:
    """Delay starts so that no session of a user begins before the one before it is over."""
    order = np.argsort(user * (1 << 32) + start, kind="stable")
    user, start, taken = user[order], start[order], taken[order]
    before = np.cumsum(taken) - taken
    begins = np.append(True, user[1:] != user[:-1])
    before -= before[begins][np.cumsum(begins) - 1]
    # One running maximum for all users: each is above all that come before.
    above = user * (1 << 40)
    earliest = np.maximum.accumulate(start - before + above) - above
    delayed = np.empty_like(start)
    delayed[order] = earliest + before
    return delayed


_HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
_FIRST_USER = 1000
_TIME = "%Y-%m-%d %H:%M:%S"
_NEXT_PAGE_SECONDS = 20
_RANKS, _RESULTS = ("1", "4", "7"), ("www.", "en.", "shop.")
_SESSIONS = 1 << 16
"""Sessions that are written at a time."""


@dataclass(frozen=True)
class SyntheticLog:
    """A synthetic log before it is written: one row per query, in the order of sessions.

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
        sessions = rows.group_by("session", maintain_order=True).agg(pl.col("user").first(), "text")
        return [Session(id, str(user), tuple(texts)) for id, user, texts in sessions.iter_rows()]


@dataclass(frozen=True)
class LogSummary:
    """The size of a synthetic log."""

    rows: int
    users: int
    distinct_queries: int
    first: str
    last: str


def make_log(sessions: int, seed: int, **options: Unpack[LogOptions]) -> SyntheticLog:
    """A log in memory, with what no file says; the options are those of `draw_log`."""
    log = draw_log(sessions, seed, **options)
    text, address = QueryTexts(log.lexicon).make(log.queries)
    queries = log.queries.drop("first", "second", "third", "slip_number").with_columns(
        text=text, url=address, slip=log.queries["slip_number"] >= 0
    )
    return SyntheticLog(queries, log.hidden)


def write_log(
    out: Path,
    sessions: int,
    seed: int,
    *,
    titles: Path | None = None,
    **options: Unpack[LogOptions],
) -> LogSummary:
    """Write a synthetic log, gzipped if the name ends in `.gz`.

    With `titles`, a file of what the synthetic site has, too: a query that no title holds is one
    with a slip and finds nothing.
    """
    if out.is_dir():
        raise InputError(f"{out}: a folder; give the name of a file")
    log = draw_log(sessions, seed, **options)
    query_texts = QueryTexts(log.lexicon)
    # The texts of the log and whether they are slips, each at least once; other columns are for
    # addresses only.
    drawn = log.queries.select("first", "second", "third", "slip_number")
    drawn = drawn.unique(maintain_order=True).with_columns(entity=0, intent=0, role=0)
    texts = pl.DataFrame({"text": query_texts.make(drawn)[0], "slip": drawn["slip_number"] >= 0})
    if titles is not None:
        right = texts.filter(~pl.col("slip"))["text"].unique().sort()
        with _replaced_file(titles) as stream:
            stream.write("".join(f"{title}\n" for title in right).encode())
    with _replaced_file(out) as stream:
        stream.write(_HEADER.encode())
        for lines in _LineMaker(log, query_texts).parts():
            stream.write(lines)
    queries = log.queries
    later = pl.when("pages").then((pl.col("clicks") - 1).clip(0)).otherwise(0)
    times = queries.select(
        first=pl.col("time").min(), last=(pl.col("time") + later * _NEXT_PAGE_SECONDS).max()
    )
    first, last = (datetime.fromtimestamp(time, UTC) for time in times.row(0))
    return LogSummary(
        rows=int(queries["clicks"].cast(pl.Int64).clip(1).sum()),
        users=queries["user"].n_unique(),
        distinct_queries=texts["text"].n_unique(),
        first=first.strftime(_TIME),
        last=last.strftime(_TIME),
    )


class _LineMaker:
    """Makes the lines of a log: one per click, or one without a click; by user, then by time."""

    def __init__(self, log: DrawnLog, texts: QueryTexts) -> None:
        self._queries, self._texts = log.queries, texts
        session = log.queries["session"].to_numpy()
        starts = np.flatnonzero(np.append(True, session[1:] != session[:-1]))
        self._starts, self._ends = starts, np.append(starts[1:], len(session))
        user, time = (log.queries[name].to_numpy()[starts] for name in ("user", "time"))
        # Sessions of a user do not overlap: sorting them sorts their queries.
        self._order = np.argsort(user.astype(np.int64) * (1 << 32) + time, kind="stable")
        clicked = (f"{rank}\thttp://{result}" for rank in _RANKS for result in _RESULTS)
        self._clicked = pl.Series(["\t", *clicked])
        # Which result a line's click is on follows the order in which the lines were drawn, not
        # that in which they are written: logs of a seed must stay what they were.
        copies = np.maximum(log.queries["clicks"].to_numpy(), 1)
        self._results = _running(copies).astype(np.int8)
        counts = np.add.reduceat(copies, starts, dtype=np.int64)[self._order]
        self._lines_before = np.append(0, np.cumsum(counts))  # by the place of the session

    def parts(self) -> Iterator[bytes]:
        """The lines, as bytes to write one after the other."""
        yield from side_by_side(self._lines, range(0, len(self._order), _SESSIONS))

    def _lines(self, start: int) -> bytes:
        sessions = self._order[start : start + _SESSIONS]
        starts = self._starts[sessions]
        lengths = self._ends[sessions] - starts
        queries = self._queries[np.repeat(starts, lengths) + _running(lengths)]
        text, address = self._texts.make(queries)
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
        lines = pl.select(
            pl.concat_str(
                pl.Series(user[query] + _FIRST_USER),
                pl.lit("\t"),
                text.gather(query),
                pl.lit("\t"),
                pl.from_epoch(pl.Series(time)).dt.to_string(_TIME),
                pl.lit("\t"),
                self._clicked.gather(np.where(clicked, 1 + click * len(_RESULTS) + result, 0)),
                pl.when(pl.Series(clicked)).then(address.gather(query)).otherwise(pl.lit("")),
            ).str.join("\n")
        )
        return f"{lines.item()}\n".encode()


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

"""A made-up query log in AOL format, with known structure, for the demo, tests and benchmarks.

Knows texts, clicks, times and the file; what is searched for is in `walks`. The same
settings give the same bytes on every machine. docs/synthetic.md describes the structure.
"""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast, get_args

import numpy as np
import polars as pl

from nextquery.artifacts import replaced_file
from nextquery.errors import InputError
from nextquery.logs.synthetic.draws import Draws, Flags, Integers
from nextquery.logs.synthetic.lexicon import ENTITIES, OUTCOMES, Lexicon, load_lexicon
from nextquery.logs.synthetic.walks import Hidden, Role, draw_queries, draw_sessions
from nextquery.records import Session

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


def check_satisfaction(text: str) -> Satisfaction:
    """The kind of satisfaction of that name."""
    for known in get_args(Satisfaction):
        if text == known:
            return cast(Satisfaction, known)
    raise InputError(f"`satisfaction` {text}: must be one of {', '.join(get_args(Satisfaction))}")


def make_log(
    sessions: int, seed: int, *, shuffled: bool = False, satisfaction: Satisfaction = "none"
) -> SyntheticLog:
    """Draw a log. `shuffled` gives the control: the same queries, dealt anew to all places.

    With `satisfaction` the queries have a column `satisfied`, and clicks and pauses follow from it:
    by the outcome that was searched for, or, as its control, by chance.
    """
    if sessions < 1:
        raise InputError(f"a made-up log needs at least 1 session, not {sessions}")
    if sessions > MOST_SESSIONS:
        raise InputError(f"`sessions` {sessions}: at most {MOST_SESSIONS:,} fit into memory")
    if seed < 0:
        raise InputError(f"the seed must not be negative, as {seed} is")
    lexicon, draws = load_lexicon(), Draws(seed)
    hidden = draw_sessions(draws, len(lexicon.domains), sessions)
    drawn = draw_queries(draws, lexicon, hidden)
    queries = _with_text(draws, lexicon, drawn)
    session = queries["session"].to_numpy()
    user = hidden.user[session]
    hurried: Flags = np.zeros(len(queries), dtype=np.bool_)
    if satisfaction != "none":
        satisfied = _satisfied(draws, lexicon, drawn, by_chance=satisfaction == "chance")
        in_vain = ~satisfied & draws.chance(_CLICKS_IN_VAIN, len(queries))
        hurried = in_vain
        queries = queries.with_columns(satisfied=pl.Series(satisfied))
    time = _times(draws, session, user, hurried)
    clicks = draws.weighted(_CLICKS, len(queries))
    if satisfaction != "none":
        clicks = np.where(satisfied | in_vain, np.maximum(clicks, 1), 0)
    pages = draws.chance(_NEXT_PAGE, len(queries))
    queries = queries.with_columns(clicks=pl.Series(clicks), pages=pl.Series(pages))
    if shuffled:
        queries = queries[draws.permutation(len(queries))]
    placed = queries.with_columns(
        session=pl.Series(session), user=pl.Series(user), time=pl.Series(time)
    )
    return SyntheticLog(placed, hidden)


def log_rows(log: SyntheticLog) -> pl.DataFrame:
    """The rows of the file: one per click, or one without a click; by user, then by time."""
    rows = log.queries.select(
        "user", "time", "text", "url", "clicks", "pages", copies=pl.col("clicks").clip(1)
    )
    copies = rows["copies"].to_numpy()
    query = np.repeat(np.arange(len(rows)), copies)
    click = np.arange(len(query)) - (np.cumsum(copies) - copies)[query]
    rows = rows[query].with_columns(click=pl.Series(click))
    seconds = pl.col("time") + pl.when("pages").then(pl.col("click") * 20).otherwise(0)
    clicked = pl.col("clicks") > 0
    result = pl.Series(["www.", "en.", "shop."]).gather(rows["click"])  # each click another result
    return (
        rows.with_columns(seconds=seconds)
        .sort("user", "seconds", maintain_order=True)
        .select(
            AnonID=pl.col("user") + 1000,
            Query="text",
            QueryTime=pl.from_epoch("seconds").dt.strftime("%Y-%m-%d %H:%M:%S"),
            ItemRank=pl.when(clicked).then(pl.col("click") * 3 + 1),
            ClickURL=pl.when(clicked).then(pl.concat_str(pl.lit("http://"), result, "url")),
        )
    )


def write_log(
    out: Path,
    sessions: int,
    seed: int,
    *,
    shuffled: bool = False,
    titles: Path | None = None,
    satisfaction: Satisfaction = "none",
) -> pl.DataFrame:
    """Write a made-up log, gzipped if the name ends in `.gz`; the rows are returned.

    With `titles`, a file of what the made-up site has, too: a query that no title holds is one
    with a slip and finds nothing.
    """
    if out.is_dir():
        raise InputError(f"{out}: a folder; give the name of a file")
    log = make_log(sessions, seed, shuffled=shuffled, satisfaction=satisfaction)
    rows = log_rows(log)
    if titles is not None:
        right = log.queries.filter(~pl.col("slip"))["text"].unique().sort()
        with _replaced_file(titles) as stream:
            stream.write("".join(f"{title}\n" for title in right).encode())
    with _replaced_file(out) as stream:
        rows.write_csv(stream, separator="\t", quote_style="never")
    return rows


@contextmanager
def _replaced_file(out: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the name `out` only when it is complete."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(out) as stream:
        if out.suffix == ".gz":
            # Neither name nor time in the header: the same log is the same bytes.
            with gzip.GzipFile("", "wb", 6, stream, mtime=0) as compressed:
                yield cast(BinaryIO, compressed)
        else:
            yield stream


def _with_text(draws: Draws, lexicon: Lexicon, queries: pl.DataFrame) -> pl.DataFrame:
    """Add the text of every query, slips included, and the address that its clicks go to."""
    phrases = pl.Series(lexicon.phrases)
    parts = [phrases.gather(queries[name]) for name in ("first", "second", "third")]
    text = pl.select(pl.concat_str(parts, separator=" ").str.strip_chars_end()).to_series()
    slipped = queries["slip"].arg_true()
    wrong = [
        _slip(right, place)
        for right, place in zip(text.gather(slipped), draws.below(2**30, len(slipped)), strict=True)
    ]
    text = text.scatter(slipped, wrong)
    return queries.drop("first", "second", "third").with_columns(
        text=text, url=_address(lexicon, queries, text)
    )


def _slip(text: str, number: int) -> str:
    """Swap, drop or double a letter inside a word."""
    inner = [
        place
        for place in range(1, len(text) - 2)
        if text[place - 1 : place + 2].isalpha() and text[place] != text[place + 1]
    ]
    if not inner:
        return text + text[-1]
    place = inner[(number // 3) % len(inner)]
    pair = text[place : place + 2]
    return text[:place] + (pair[::-1], pair[1], pair[0] + pair)[number % 3] + text[place + 2 :]


def _address(lexicon: Lexicon, queries: pl.DataFrame, text: pl.Series) -> pl.Series:
    """Where the clicks go: a site of the entity and intent, of the entity, or of the query itself.

    `.example` is reserved: no such address belongs to anybody.
    """
    start = lexicon.starts["entities"]
    entities = pl.Series(lexicon.phrases[start : start + len(lexicon.domains) * ENTITIES])
    entity, intent = queries["entity"], queries["intent"]
    names = entities.gather(entity.clip(0))
    intents = pl.Series(lexicon.intents).gather(intent.clip(0))
    site = (
        pl.when(queries["role"].is_in([Role.NAVIGATION, Role.FAMILY]))
        .then(text)
        .when(intent >= 0)
        .then(pl.concat_str(names, intents, separator="-"))
        .otherwise(names)
    )
    slug = site.str.replace_all(" ", "-", literal=True)
    return pl.select(pl.concat_str(slug, pl.lit(".example"))).to_series()


def _satisfied(draws: Draws, lexicon: Lexicon, drawn: pl.DataFrame, *, by_chance: bool) -> Flags:
    """Which queries gave their users what they wanted."""
    role, intent = drawn["role"].to_numpy(), drawn["intent"].to_numpy()
    is_outcome = role == Role.OUTCOME
    number = drawn["second"].to_numpy() - lexicon.starts["outcomes"] - intent * OUTCOMES
    percent = np.where(np.isin(number, SATISFYING), _SATISFIED, _DISAPPOINTED)
    percent = np.where(is_outcome, percent, _ELSE)
    if by_chance:
        percent = np.full(len(drawn), _ELSE)
    found: Flags = draws.below(100, len(drawn)) < percent
    return found


def _times(draws: Draws, session: Integers, user: Integers, hurried: Flags) -> Integers:
    """Epoch seconds of every query: pauses within a session, longer ones between a user's.

    After a query that was `hurried` the next one comes at once.
    """
    count = int(session[-1]) + 1
    roots = draws.below(1000, len(session))  # squared: most pauses are short
    spread = _LONGEST_PAUSE - _SHORTEST_PAUSE
    pause = _SHORTEST_PAUSE + roots * roots * spread // 1_000_000
    hurry = _SHORTEST_HURRY + roots * (_LONGEST_HURRY - _SHORTEST_HURRY) // 1000
    pause = np.where(np.append(False, hurried[:-1]), hurry, pause)
    first = np.append(True, session[1:] != session[:-1])
    elapsed = np.cumsum(np.where(first, 0, pause))
    elapsed -= elapsed[first][session]
    lasted = np.maximum.reduceat(elapsed, np.flatnonzero(first))
    day = draws.below(_SPAN_DAYS, count)
    second = draws.weighted(_HOURS, count) * 3600 + draws.below(3600, count)
    start = _separate_sessions(user[first], day * 86_400 + second, lasted + _BETWEEN_SESSIONS)
    times: Integers = _FIRST_SECOND + start[session] + elapsed
    return times


def _separate_sessions(user: Integers, start: Integers, taken: Integers) -> Integers:
    """Delay starts so that no session of a user begins before the one before it is over."""
    frame = pl.DataFrame({"user": user, "start": start, "taken": taken}).with_row_index("session")
    before = pl.col("taken").cum_sum().over("user") - pl.col("taken")
    earliest = (pl.col("start") - before).cum_max().over("user")
    moved = frame.sort("user", "start", "session").with_columns(start=earliest + before)
    delayed: Integers = moved.sort("session")["start"].to_numpy()
    return delayed

"""A made-up query log as numbers: who searched for what and when, and what was clicked.

Knows users, clicks and times; what is searched for is in `walks`.
"""

from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
import polars as pl

from nextquery.errors import InputError
from nextquery.logs.synthetic.draws import Draws, Flags, Integers
from nextquery.logs.synthetic.lexicon import OUTCOMES, Lexicon, load_lexicon
from nextquery.logs.synthetic.walks import Hidden, Role, draw_queries, draw_sessions, in_parts

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
    """The kind of satisfaction of that name."""
    for known in get_args(Satisfaction):
        if text == known:
            return cast(Satisfaction, known)
    raise InputError(f"`satisfaction` {text}: must be one of {', '.join(get_args(Satisfaction))}")


def draw_log(
    sessions: int,
    seed: int,
    *,
    shuffled: bool = False,
    satisfaction: Satisfaction = "none",
    extra_words: int = 0,
) -> DrawnLog:
    """Draw a log. `shuffled` gives the control: the same queries, dealt anew to all places.

    With `satisfaction` the queries have a column `satisfied`, and clicks and pauses follow from it:
    by the outcome that was searched for, or, as its control, by chance. With `extra_words` made-up
    names of things to search for make the vocabulary larger.
    """
    if sessions < 1:
        raise InputError(f"a made-up log needs at least 1 session, not {sessions}")
    if sessions > MOST_SESSIONS:
        raise InputError(f"`sessions` {sessions}: at most {MOST_SESSIONS:,} fit into memory")
    if seed < 0:
        raise InputError(f"the seed must not be negative, as {seed} is")
    lexicon, draws = load_lexicon(extra_words), Draws(seed)
    hidden = draw_sessions(draws, len(lexicon.domains), sessions)
    queries = draw_queries(draws, lexicon, hidden)
    queries = queries.drop("slip").with_columns(slip_number=_slip_numbers(draws, queries["slip"]))
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
    places = {"session": session, "user": hidden.user[session].astype(np.int32), "time": time}
    if shuffled:
        queries = queries[draws.permutation(len(queries))]
    placed = queries.with_columns(pl.Series(name, values) for name, values in places.items())
    return DrawnLog(placed, hidden, lexicon)


def _slip_numbers(draws: Draws, slip: pl.Series) -> pl.Series:
    numbers = np.full(len(slip), -1, dtype=np.int32)
    slipped = slip.arg_true().to_numpy()
    numbers[slipped] = draws.below(2**30, len(slipped))
    return pl.Series(numbers)


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

    After a query that was `hurried` the next one comes at once. `user` is that of each session.
    """
    count, size = len(user), len(session)
    first = np.append(True, session[1:] != session[:-1])
    after_hurry = np.append(False, hurried[:-1])

    def pauses(start: int, end: int) -> Integers:
        roots = draws.window(start, end, size).below(1000, size)  # squared: most are short
        spread = _LONGEST_PAUSE - _SHORTEST_PAUSE
        pause = _SHORTEST_PAUSE + roots * roots * spread // 1_000_000
        hurry = _SHORTEST_HURRY + roots * (_LONGEST_HURRY - _SHORTEST_HURRY) // 1000
        pause = np.where(after_hurry[start:end], hurry, pause)
        return np.where(first[start:end], 0, pause)

    elapsed = np.cumsum(np.concatenate(in_parts(size, pauses)))
    draws.skip(size)
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
    # One running maximum for all users: each stands above all that come before.
    above = user * (1 << 40)
    earliest = np.maximum.accumulate(start - before + above) - above
    delayed = np.empty_like(start)
    delayed[order] = earliest + before
    return delayed

"""Sessions and splits: rows of one user become sessions, sessions get a split.

What one user adds to the background is limited, so that nobody decides alone what is suggested.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from zoneinfo import ZoneInfo

import narwhals as nw

from nextquery.errors import InputError
from nextquery.logs.data_folder import SPLITS, UNSEEN_USERS
from nextquery.logs.engines.base import Engine, Frame, Rows, count_rows
from nextquery.logs.privacy import USER_BITS


@dataclass(frozen=True)
class SessionRows:
    """The rows of all sessions.

    `queries` has one row per query: user_id, session, position, time, query_id, next_id (the query
    that follows, or null), clicks, split, starts, single (the session's only query), too_long (a
    run of queries reached `max_queries` before this one). `clicks` has one row per click: user_id,
    time, query_id, url_id, split.
    """

    queries: Frame
    clicks: Frame


def find_sessions(
    engine: Engine, ordered: Rows, split: nw.Expr, idle_minutes: int, max_queries: int
) -> SessionRows:
    """Cut the rows (user_id, time, row, query_id, url_id, ...) into sessions, each in its split.

    `ordered` comes from `engine.sort_rows`; `split` looks at the columns of a session's first row.
    """

    def cut(rows: Rows) -> tuple[Frame, ...]:
        marked = mark_sessions(rows, engine, split, idle_minutes, max_queries)
        marked = marked.select(
            *("user_id", "time", "row", "query_id", "url_id"),
            *("starts", "fresh", "too_long", "session", "split"),
        )
        clicked = marked.lazy().filter(~nw.col("url_id").is_null())
        merged = number_queries(merge_repeats(marked, engine), engine).lazy()
        queries = merged.select(
            *("user_id", "session", "position", "time", "query_id", "next_id", "clicks"),
            *("split", "starts", "single", "too_long"),
        )
        return queries, clicked.select("user_id", "time", "query_id", "url_id", "split")

    queries, clicks = engine.by_users(ordered, cut, ["session_queries", "session_clicks"])
    return SessionRows(queries, clicks)


def mark_sessions(
    rows: Rows, engine: Engine, split: nw.Expr, idle_minutes: int, max_queries: int
) -> Rows:
    """Mark where sessions and queries start.

    Takes user_id, time, row, query_id; adds `starts`, `fresh` (the row does not repeat the query
    before it), `too_long` (once for each run of more than `max_queries` queries), and the session's
    `session` and `split`.
    """
    user, time, query = nw.col("user_id"), nw.col("time"), nw.col("query_id")
    same_user = (engine.ordered(user.shift(1)) == user).fill_null(False)
    paused = engine.ordered(time.shift(1)).dt.offset_by(f"{idle_minutes}m") < time
    rows = rows.with_columns(
        starts=~same_user | paused, changed=engine.ordered(query.shift(1)) != query
    )
    rows = rows.with_columns(fresh=nw.col("starts") | nw.col("changed"))
    # A new session starts after every `max_queries` queries of a run.
    rows = rows.with_columns(number=nw.col("fresh").cast(nw.Int64))
    rows = rows.with_columns(number=engine.ordered(nw.col("number").cum_sum()))
    rows = rows.with_columns(first=nw.when("starts").then(nw.col("number")))
    rows = rows.with_columns(first=engine.ordered(nw.col("first").fill_null(strategy="forward")))
    position = nw.col("number") - nw.col("first")
    rows = rows.with_columns(
        starts=nw.col("starts") | (nw.col("fresh") & (position % max_queries == 0)),
        too_long=nw.col("fresh") & (position == max_queries),
    ).drop("number", "first")
    rows = rows.with_columns(
        session=nw.when("starts").then(nw.col("row")), split=nw.when("starts").then(split)
    )
    return rows.with_columns(
        session=engine.ordered(nw.col("session").fill_null(strategy="forward")),
        split=engine.ordered(nw.col("split").fill_null(strategy="forward")),
    )


def merge_repeats(rows: Rows, engine: Engine) -> Rows:
    """One row for consecutive equal queries of a session; `clicks` counts those of all of them."""
    clicked = (~nw.col("url_id").is_null()).cast(nw.Int64)
    rows = rows.with_columns(clicked=clicked)
    # The clicks from a row on, less those from the next query on, are those of its query.
    rows = rows.with_columns(rest=engine.ordered(nw.col("clicked").cum_sum(reverse=True)))
    rows = rows.filter("fresh").drop("clicked", "fresh", "url_id")
    rows = rows.with_columns(later=engine.ordered(nw.col("rest").shift(-1)).fill_null(0))
    clicks = (nw.col("rest") - nw.col("later")).cast(nw.Int32)
    return rows.with_columns(clicks=clicks).drop("rest", "later")


def number_queries(rows: Rows, engine: Engine) -> Rows:
    """Add `position` in the session, `next_id` (the query that follows) and `single`."""
    rows = rows.with_columns(one=nw.lit(1)).with_columns(
        index=engine.ordered(nw.col("one").cum_sum()),
        next_session=engine.ordered(nw.col("session").shift(-1)),
        next_query=engine.ordered(nw.col("query_id").shift(-1)),
    )
    follows = (nw.col("next_session") == nw.col("session")).fill_null(False)
    rows = rows.with_columns(
        first=nw.when("starts").then(nw.col("index")),
        next_id=nw.when(follows).then(nw.col("next_query")),
        single=nw.col("starts") & ~follows,
    )
    rows = rows.with_columns(first=engine.ordered(nw.col("first").fill_null(strategy="forward")))
    return rows.with_columns(position=(nw.col("index") - nw.col("first")).cast(nw.Int32))


@dataclass(frozen=True)
class UserLimit:
    """How much one user adds to the background."""

    repeats: int
    """Searches of one query on one day (UTC) that count: the first ones."""
    share: float
    """Of all searches, the share that one user may have; the newest count."""

    def searches(self, searches: int, users: int) -> int:
        """At most how many searches of one user count, of `searches` by `users` in all.

        Where there are few users, each of them has a large share: 20 times the mean is allowed.

        >>> UserLimit(5, 0.01).searches(20_000, 8_000)
        200
        >>> UserLimit(5, 0.01).searches(100, 10)
        200
        """
        return max(int(self.share * searches), _TIMES_THE_MEAN * searches // max(users, 1), 1)


_TIMES_THE_MEAN = 20


@dataclass(frozen=True)
class LimitCounts:
    """How many users of the background were limited, and how many searches do not count."""

    users: int = 0
    searches: int = 0


def limit_users(
    engine: Engine, sessions: SessionRows, limit: UserLimit
) -> tuple[SessionRows, LimitCounts]:
    """The sessions without the searches of the background that are beyond the limit.

    A session that loses a query closes up; if one query is left it is a single search.
    """
    background = nw.col("split") == SPLIT_CODES["background"]
    rows = sessions.queries.filter(background).with_columns(day=nw.col("time").dt.date())
    sizes = engine.materialise(rows.group_by("user_id").agg(searches=nw.len()), "user_sizes")
    totals = sizes.select(searches=nw.col("searches").sum(), users=nw.len()).collect("polars")
    ((searches_in_all, users_in_all),) = totals.rows()
    most = limit.searches(int(searches_in_all or 0), int(users_in_all))
    by_day = rows.group_by("user_id", "query_id", "day").agg(searches=nw.len())
    repeating = by_day.filter(nw.col("searches") > limit.repeats).select("user_id")
    busy = sizes.filter(nw.col("searches") > most).select("user_id")
    limited = engine.materialise(nw.concat([repeating, busy]).unique(), "limited_users")
    users = count_rows(limited)
    if not users:
        return sessions, LimitCounts()
    searches = engine.materialise(rows.join(limited, on="user_id", how="semi"), "their_searches")
    limited_searches = _first(searches, limit.repeats, ["user_id", "query_id", "day"], _IN_ORDER)
    newest = nw.col("one").cum_sum(reverse=True).over("user_id", order_by=_IN_ORDER)
    limited_searches = limited_searches.with_columns(one=nw.lit(1)).with_columns(number=newest)
    limited_searches = engine.materialise(
        limited_searches.filter(nw.col("number") <= most), "their_newest_searches"
    )
    closed = engine.materialise(_close_up(limited_searches), "their_sessions")
    # Clicks of limited users count from their first kept search on, and few per day.
    since = limited_searches.group_by("user_id").agg(since=nw.col("time").min())
    clicks = sessions.clicks.filter(background).join(since, on="user_id")
    clicks = clicks.filter(nw.col("time") >= nw.col("since"))
    clicks = clicks.with_columns(day=nw.col("time").dt.date())
    clicks = _first(clicks, limit.repeats, ["user_id", "query_id", "url_id", "day"], ["time"])
    counts = LimitCounts(users, count_rows(searches) - count_rows(closed))
    return SessionRows(
        engine.materialise(_replace(sessions.queries, limited, closed), "limited_queries"),
        engine.materialise(_replace(sessions.clicks, limited, clicks), "limited_clicks"),
    ), counts


_IN_ORDER = ["time", "session", "position"]


def _first(rows: Frame, most: int, keys: list[str], order: list[str]) -> Frame:
    """At most `most` rows for each combination of keys."""
    number = nw.col("one").cum_sum().over(*keys, order_by=order)
    numbered = rows.with_columns(one=nw.lit(1)).with_columns(number=number)
    return numbered.filter(nw.col("number") <= most).drop("one", "number")


def _close_up(rows: Frame) -> Frame:
    """Renumber the queries of sessions that lost some; equal neighbours become one."""
    before = nw.col("query_id").shift(1).over("session", order_by="position")
    rows = rows.with_columns(before=before)
    rows = rows.filter(nw.col("before").is_null() | (nw.col("before") != nw.col("query_id")))
    rows = rows.with_columns(
        number=nw.col("one").cum_sum().over("session", order_by="position"),
        next_id=nw.col("query_id").shift(-1).over("session", order_by="position"),
    )
    starts = nw.col("number") == 1
    return rows.with_columns(
        position=(nw.col("number") - 1).cast(nw.Int32),
        starts=starts,
        single=starts & nw.col("next_id").is_null(),
    )


def _replace(rows: Frame, limited: Frame, kept: Frame) -> Frame:
    """The rows with `kept` in the place of the background rows of limited users."""
    columns = rows.collect_schema().names()
    unlimited = rows.join(limited, on="user_id", how="anti")
    later = rows.filter(nw.col("split") != SPLIT_CODES["background"])
    later = later.join(limited, on="user_id", how="semi")
    return nw.concat([frame.select(*columns) for frame in (unlimited, later, kept)])


PAPER_DAYS = (61, 14, 8, 9)
"""The paper's log has 92 days: 61 before 1 May, two weeks of training, and "the remaining two
weeks", 15 to 31 May, halved at 23 May."""

_LEAST_DAYS, _MOST_DAYS = 0.01, 10_000

SPLIT_CODES = {name: code for code, name in enumerate((*SPLITS, UNSEEN_USERS))}


@dataclass(frozen=True)
class SplitRule:
    """Cut times, as naive UTC, and the share of users held out."""

    cuts: tuple[datetime, datetime, datetime]
    holdout_users: float = 0.0

    def split(self) -> nw.Expr:
        """The code of a session's split, by `time` and user (`held_out`) of its first row."""
        time = nw.col("time")
        *earlier, last = SPLITS
        code = nw.lit(SPLIT_CODES[last])
        for split, cut in reversed(list(zip(earlier, self.cuts, strict=True))):
            code = nw.when(time < _instant(cut)).then(nw.lit(SPLIT_CODES[split])).otherwise(code)
        unseen = nw.lit(SPLIT_CODES[UNSEEN_USERS])
        return nw.when("held_out").then(unseen).otherwise(code).cast(nw.Int8)

    def in_background(self) -> nw.Expr:
        """Whether a row, not its session, is before the first cut and not of a held-out user."""
        return (nw.col("time") < _instant(self.cuts[0])) & ~nw.col("held_out")

    def held_out(self) -> nw.Expr:
        """Whether a user is held out, by the pseudonym."""
        return nw.col("user") < int(self.holdout_users * 2**USER_BITS)


def parse_cuts(text: str, zone: str) -> tuple[datetime, datetime, datetime]:
    """Read `T1,T2,T3`: ISO dates or times; without an offset they are local to `zone`."""
    parts = text.split(",")
    if len(parts) != len(SPLITS) - 1:
        raise InputError(f"`split_at` {text}: give three times, e.g. 2006-05-01,2006-05-15,...")
    first, second, third = (_naive_utc(part.strip(), zone) for part in parts)
    if not first < second < third:
        raise InputError(f"`split_at` {text}: the three times must ascend")
    return first, second, third


def paper_cuts(first: datetime, last: datetime) -> tuple[datetime, datetime, datetime]:
    """Cut the time from the first to the last row in the paper's proportions, at full seconds."""
    span = last - first
    second, total = timedelta(seconds=1), sum(PAPER_DAYS)
    starts = list(accumulate(PAPER_DAYS))
    one, two, three = (first + span * days // total // second * second for days in starts[:-1])
    return one, two, three


def parse_days(text: str) -> tuple[float, float, float]:
    """Read `D1,D2,D3`: how many days training, validation and test are long.

    >>> parse_days("1,0.5,1")
    (1.0, 0.5, 1.0)
    """
    try:
        days = tuple(float(part) for part in text.split(","))
    except ValueError:
        days = ()
    if len(days) != len(SPLITS) - 1 or not all(
        _LEAST_DAYS <= length <= _MOST_DAYS for length in days
    ):
        raise InputError(
            f"`split_days` {text}: give the days of training, validation and test, "
            f"length from {_LEAST_DAYS} to {_MOST_DAYS:,}, e.g. 1,1,1"
        )
    first, second, third = days
    return first, second, third


def last_days_cuts(
    last: datetime, days: tuple[float, float, float]
) -> tuple[datetime, datetime, datetime]:
    """Cut that many days before the last row, at full seconds: the cuts move with the log.

    >>> [f"{cut:%d %Hh}" for cut in last_days_cuts(datetime(2026, 5, 9, 18), (2, 1, 0.5))]
    ['06 06h', '08 06h', '09 06h']
    """
    lengths = [round(86400 * sum(days[split:])) for split in range(len(days))]
    end = last.replace(microsecond=0)
    first, second, third = (end - timedelta(seconds=length) for length in lengths)
    return first, second, third


def _instant(time: datetime) -> nw.Expr:
    # Spark reads a datetime literal in the process's own time zone; a parsed text has none.
    return nw.lit(f"{time:%Y-%m-%d %H:%M:%S}").str.to_datetime(format="%Y-%m-%d %H:%M:%S")


def _naive_utc(text: str, zone: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"`split_at` {text}: not an ISO date or time") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=ZoneInfo(zone))
    if time.microsecond:
        raise InputError(f"`split_at` {text}: give whole seconds")
    if not 1900 <= time.year <= 2200:
        raise InputError(f"`split_at` {text}: give a year from 1900 to 2200")
    return time.astimezone(UTC).replace(tzinfo=None)

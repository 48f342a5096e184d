"""Rows become sessions: runs of one user's queries with no long pause between them.

Knows order and time; the queries are opaque ids here. `session` is the row number of the session's
first query in the log, which every engine finds without numbering sessions globally.
"""

from dataclasses import dataclass

import narwhals as nw

from nextquery.logs.engines.base import Engine, Frame, Rows

_MARKED = (
    *("user_id", "time", "row", "query_id", "url_id"),
    *("starts", "fresh", "session", "split"),
)


@dataclass(frozen=True)
class SessionRows:
    """The rows of all sessions.

    `queries` has one row per query: user_id, session, position, time, query_id, next_id (the query
    that follows, or null), clicks, split, starts, single (the session's only query). `clicks` has
    one row per click: user_id, query_id, url_id, split.
    """

    queries: Frame
    clicks: Frame


def find_sessions(engine: Engine, ordered: Rows, split: nw.Expr, idle_minutes: int) -> SessionRows:
    """Cut the rows (user_id, time, row, query_id, url_id, ...) into sessions, each in its split.

    `ordered` comes from `engine.sort_rows`; `split` looks at the columns of a session's first row.
    """

    def cut(rows: Rows) -> tuple[Frame, ...]:
        marked = mark_sessions(rows, engine, split, idle_minutes).select(*_MARKED)
        clicked = marked.lazy().filter(~nw.col("url_id").is_null())
        merged = number_queries(merge_repeats(marked, engine), engine).lazy()
        queries = merged.select(
            *("user_id", "session", "position", "time", "query_id", "next_id", "clicks"),
            *("split", "starts", "single"),
        )
        return queries, clicked.select("user_id", "query_id", "url_id", "split")

    queries, clicks = engine.by_users(ordered, cut, ["session_queries", "session_clicks"])
    return SessionRows(queries, clicks)


def mark_sessions(rows: Rows, engine: Engine, split: nw.Expr, idle_minutes: int) -> Rows:
    """Mark where sessions and queries start.

    Takes user_id, time, row, query_id; adds `starts`, `fresh` (the row does not repeat the query
    before it), and the session's `session` and `split`.
    """
    user, time, query = nw.col("user_id"), nw.col("time"), nw.col("query_id")
    same_user = (engine.ordered(user.shift(1)) == user).fill_null(False)
    paused = engine.ordered(time.shift(1)).dt.offset_by(f"{idle_minutes}m") < time
    rows = rows.with_columns(
        starts=~same_user | paused, changed=engine.ordered(query.shift(1)) != query
    )
    rows = rows.with_columns(
        fresh=nw.col("starts") | nw.col("changed"),
        session=nw.when("starts").then(nw.col("row")),
        split=nw.when("starts").then(split),
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

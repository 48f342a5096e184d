"""Rows become sessions: runs of one user's queries with no long pause between them.

Knows order and time; the queries are opaque ids here. `session` is the row number of the session's
first query in the log, which every engine finds without numbering sessions globally.
"""

from dataclasses import dataclass

import narwhals as nw

from nextquery.logs.engine import Engine, Frame, Rows


@dataclass(frozen=True)
class SessionRows:
    """The rows of all sessions.

    `queries` has a row a query: user, session, position, time, query_id, next_id (the query that
    follows, or null), clicks, split, starts, single (the session's only query). `clicks` has a row
    a click: user, query_id, url_id, split.
    """

    queries: Frame
    clicks: Frame


def find_sessions(engine: Engine, events: Frame, split: nw.Expr, idle_minutes: int) -> SessionRows:
    """Cut the rows (user, time, row, query_id, url_id) into sessions, each in its split."""
    events = events.with_columns(clicks=(~nw.col("url_id").is_null()).cast(nw.Int32))
    marked = mark_sessions(engine.in_order(events, "ordered"), engine, idle_minutes)
    marked = marked.with_columns(split=split)
    merged = number_queries(merge_repeats(marked, engine), engine).lazy()
    queries = merged.select(
        *("user", "session", "position", "time", "query_id", "next_id", "clicks"),
        *("split", "starts", "single"),
    )
    clicked = marked.lazy().filter(nw.col("clicks") == 1)
    clicks = clicked.select("user", "query_id", "url_id", "split")
    return SessionRows(
        engine.keep(queries, "session_queries"), engine.keep(clicks, "session_clicks")
    )


def mark_sessions(rows: Rows, engine: Engine, idle_minutes: int) -> Rows:
    """Mark where sessions and queries start.

    Takes user, time, row, query_id, clicks; adds `begin` (time of the session's first query),
    `session` and `fresh` (the row does not repeat the query before it).
    """
    user, time, query = nw.col("user"), nw.col("time"), nw.col("query_id")
    rows = rows.with_columns(
        previous_user=engine.ordered(user.shift(1)),
        previous_time=engine.ordered(time.shift(1)),
        previous_query=engine.ordered(query.shift(1)),
    )
    same_user = (nw.col("previous_user") == user).fill_null(False)
    paused = nw.col("previous_time").dt.offset_by(f"{idle_minutes}m") < time
    rows = rows.with_columns(starts=~same_user | paused)
    rows = rows.with_columns(
        fresh=nw.col("starts") | (nw.col("previous_query") != query),
        begin=nw.when("starts").then(time),
        session=nw.when("starts").then(nw.col("row")),
    ).drop("previous_user", "previous_time", "previous_query")
    return rows.with_columns(
        begin=engine.ordered(nw.col("begin").fill_null(strategy="forward")),
        session=engine.ordered(nw.col("session").fill_null(strategy="forward")),
    )


def merge_repeats(rows: Rows, engine: Engine) -> Rows:
    """One row for consecutive equal queries of a session, their clicks summed."""
    rows = rows.with_columns(
        total=engine.ordered(nw.col("clicks").cast(nw.Int64).cum_sum()),
        last=engine.ordered(nw.col("fresh").shift(-1)).fill_null(True),
    )
    rows = rows.with_columns(run_total=nw.when("last").then(nw.col("total")))
    rows = rows.with_columns(
        run_total=engine.ordered(nw.col("run_total").fill_null(strategy="backward"))
    )
    clicks = nw.col("run_total") - nw.col("total") + nw.col("clicks")
    merged = rows.with_columns(clicks=clicks.cast(nw.Int32)).filter("fresh")
    return merged.drop("total", "last", "run_total", "fresh")


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

"""Which queries were useful: their results were clicked, and nothing else was typed at once.

A query is useful if at least one of its results was clicked and the next query of the session came
more than a minute later: who leaves a result so soon did not find there what they looked for
(clicks with a dwell time of half a minute and more are what search teams call satisfied; Fox et al.
2005). The log knows when queries were typed and not when results were left, hence the next query
instead of the dwell time.

Of a session's last query nobody knows how long its user stayed. If it was clicked it is undecided,
and counts as useful with the share that is useful of the clicked queries which another one follows:
neither for sure, which would favour how sessions end, nor not at all. What a user found on the
result page itself leaves no click and counts as not useful; a log without clicks has no useful
queries.
"""

from collections.abc import Iterator

import narwhals as nw
import polars as pl

from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.engines.base import Frame

AT_ONCE = 60
"""A next query within so many seconds means that this one was no use."""
USEFUL, UNDECIDED = "useful", "undecided"


def with_usefulness(rows: Frame) -> Frame:
    """Session rows (session, position, time, clicks, ...) with two marks: useful and undecided."""
    following = nw.col("time").shift(-1).over("session", order_by="position")
    timed = rows.with_columns(next_time=following)
    pause = (nw.col("next_time") - nw.col("time")).dt.total_seconds()
    clicked, last = nw.col("clicks") > 0, nw.col("next_time").is_null()
    stayed = ~last & (pause > AT_ONCE)
    marks = ((clicked & stayed).alias(USEFUL), (clicked & last).alias(UNDECIDED))
    return timed.with_columns(*marks).drop("next_time")


def undecided_share(useful: int, clicked_and_followed: int) -> float:
    """How useful an undecided query is: the share of useful ones among those like it.

    Two imaginary ones, one of them useful, keep it off the ends where there are few.

    >>> undecided_share(useful=5, clicked_and_followed=8)
    0.6
    """
    return (useful + 1) / (clicked_and_followed + 2)


def usefulness(data: PreparedData, split: str) -> Iterator[float]:
    """How useful each query of a split was, from 0 to 1, in the order of `data.sessions`."""
    share = _background_share(data)
    marked = with_usefulness(nw.from_native(data.session_rows(split)))
    rows: pl.LazyFrame = marked.to_native()
    value = pl.col(USEFUL).cast(pl.Float64) + pl.col(UNDECIDED).cast(pl.Float64) * share
    yield from rows.sort("session", "position").select(value).collect().to_series()


def _background_share(data: PreparedData) -> float:
    rows: pl.LazyFrame = with_usefulness(
        nw.from_native(data.session_rows("background"))
    ).to_native()
    clicked = (pl.col("clicks") > 0).sum()
    found = rows.select(pl.col(USEFUL).sum(), pl.col(UNDECIDED).sum(), clicked).collect()
    useful, undecided, clicks = found.row(0)
    if not clicks:
        raise InputError(f"{data.path}: {NO_CLICKS}; leave out what learns from clicks")
    return undecided_share(useful, clicks - undecided)


NO_CLICKS = "no query was clicked, so that none can be said to have been useful"

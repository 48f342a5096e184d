"""Which queries were useful: their results were clicked, and nothing else was typed at once.

A query is useful if at least one of its results was clicked and the same session has no further
query within a minute of it: who leaves a result so soon did not find there what they looked for
(clicks with a dwell time of half a minute and more are what search teams call satisfied; Fox et al.
2005). The log knows when queries were typed and not when results were left, hence the next query
instead of the dwell time. What a user found on the result page itself leaves no click and counts as
not useful; a log without clicks has no useful queries.
"""

import narwhals as nw

from nextquery.logs.engines.base import Frame

AT_ONCE = 60
"""A next query within so many seconds means that this one was no use."""
USEFUL = "useful"


def with_usefulness(rows: Frame) -> Frame:
    """Session rows (session, position, time, clicks, ...) with a column that says if each was."""
    following = nw.col("time").shift(-1).over("session", order_by="position")
    timed = rows.with_columns(next_time=following)
    pause = (nw.col("next_time") - nw.col("time")).dt.total_seconds()
    stayed = nw.col("next_time").is_null() | (pause > AT_ONCE)
    return timed.with_columns(((nw.col("clicks") > 0) & stayed).alias(USEFUL)).drop("next_time")

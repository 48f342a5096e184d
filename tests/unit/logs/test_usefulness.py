from datetime import datetime, timedelta

import narwhals as nw
import numpy as np
import polars as pl

from nextquery.logs.synthetic.log import make_log
from nextquery.logs.usefulness import AT_ONCE, USEFUL, with_usefulness

NOON = datetime(2026, 5, 1, 12)


def useful(rows: pl.DataFrame) -> list[bool]:
    frame = with_usefulness(nw.from_native(rows.lazy()))
    found: pl.DataFrame = frame.to_native().collect()
    assert found.columns == [*rows.columns, USEFUL]
    return found.sort("session", "position")[USEFUL].to_list()


def session(*queries: tuple[int, int], number: int = 0) -> pl.DataFrame:
    """Queries as (seconds since the last, clicks)."""
    times, now = [], NOON
    for pause, _ in queries:
        now += timedelta(seconds=pause)
        times.append(now)
    return pl.DataFrame(
        {
            "session": [number] * len(queries),
            "position": range(len(queries)),
            "time": times,
            "clicks": [clicks for _, clicks in queries],
        }
    )


def test_clicked_and_left_in_peace() -> None:
    assert useful(session((0, 1), (300, 0), (300, 2))) == [True, False, True]


def test_typed_again_at_once() -> None:
    assert useful(session((0, 1), (AT_ONCE, 1), (AT_ONCE + 1, 0))) == [False, True, False]


def test_the_next_session_is_no_reformulation() -> None:
    rows = pl.concat([session((0, 1)), session((5, 1), number=1)])
    assert useful(rows) == [True, True]


def test_the_order_of_rows_does_not_matter() -> None:
    rows = session((0, 1), (10, 1), (300, 0))
    assert useful(rows.reverse()) == useful(rows) == [False, True, False]


def test_it_finds_who_was_satisfied_in_a_log_that_knows() -> None:
    """Everybody who was satisfied is found; of those found, nine in ten were.

    The others clicked in vain and gave up: their session ends there, and no log can tell.
    """
    queries = make_log(3000, seed=1, satisfaction="outcome").queries
    position = pl.int_range(pl.len()).over("session").alias("position")
    rows = queries.with_columns(position, pl.from_epoch("time", time_unit="s"))
    found = np.array(useful(rows.select("session", "position", "time", "clicks")))
    true, clicked = queries["satisfied"].to_numpy(), queries["clicks"].to_numpy() > 0
    assert found[true].all()
    assert true[found].mean() > 0.85
    assert true[clicked].mean() < 0.75, "the control: clicks alone tell less"

from datetime import datetime, timedelta
from typing import Any, cast

import narwhals as nw
import polars as pl
import pytest

from nextquery.errors import InputError
from nextquery.logs.counting import (
    AT_ONCE,
    UNDECIDED,
    USEFUL,
    undecided_share,
    usefulness,
    with_usefulness,
)
from nextquery.logs.synthetic.log import Satisfaction, make_log

NOON = datetime(2026, 5, 1, 12)


def marked(rows: pl.DataFrame) -> list[str]:
    """Of each query in order: useful, undecided or neither."""
    frame = with_usefulness(nw.from_native(rows.lazy()))
    found: pl.DataFrame = frame.to_native().collect()
    assert found.columns == [*rows.columns, USEFUL, UNDECIDED]
    assert not (found[USEFUL] & found[UNDECIDED]).any()
    return [
        "useful" if useful else "undecided" if undecided else "no"
        for useful, undecided in found.sort("session", "position")
        .select(USEFUL, UNDECIDED)
        .iter_rows()
    ]


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
    assert marked(session((0, 1), (300, 0), (300, 2), (300, 0))) == ["useful", "no", "useful", "no"]


def test_typed_again_at_once() -> None:
    assert marked(session((0, 1), (AT_ONCE, 1), (AT_ONCE + 1, 0))) == ["no", "useful", "no"]


def test_of_the_last_query_nobody_knows() -> None:
    rows = pl.concat([session((0, 1)), session((5, 1), number=1), session((0, 0), number=2)])
    assert marked(rows) == ["undecided", "undecided", "no"]


def test_the_order_of_rows_does_not_matter() -> None:
    rows = session((0, 1), (10, 1), (300, 0))
    assert marked(rows.reverse()) == marked(rows) == ["no", "useful", "no"]


def _made_up(satisfaction: Satisfaction) -> pl.DataFrame:
    queries = make_log(3000, seed=1, satisfaction=satisfaction).queries
    position = pl.int_range(pl.len()).over("session").alias("position")
    rows = queries.with_columns(position, pl.from_epoch("time", time_unit="s"))
    marks = marked(rows.select("session", "position", "time", "clicks"))
    last = (pl.col("position") == pl.col("position").max().over("session")).alias("last")
    return rows.with_columns(last, mark=pl.Series(marks))


def test_it_finds_who_was_satisfied_in_a_log_that_knows() -> None:
    """Where another query follows, exactly the satisfied ones; clicks alone tell less."""
    rows = _made_up("outcome")
    followed = rows.filter(~pl.col("last"))
    assert ((followed["mark"] == "useful") == followed["satisfied"]).all()
    clicked = rows.filter(pl.col("clicks") > 0)
    assert cast(float, clicked["satisfied"].mean()) < 0.75, "the control"


def test_the_share_of_undecided_ones_favours_no_ending() -> None:
    """By chance, last queries are as useful as others: on average, so are they marked."""
    rows = _made_up("chance")
    useful, followed = rows["mark"] == "useful", ~rows["last"] & (rows["clicks"] > 0)
    share = undecided_share(int(useful.sum()), int(followed.sum()))
    certain = (pl.col("mark") == "useful").cast(pl.Float64)
    value = pl.when(pl.col("mark") == "undecided").then(share).otherwise(certain)
    means = rows.with_columns(value=value).group_by("last").agg(pl.col("value").mean())
    before, ending = means.sort("last")["value"]
    assert ending == pytest.approx(before, abs=0.02)


def test_every_query_of_a_split_has_a_number(prepared: Any, tiny_log: Any) -> None:
    """A minute lies between queries here: a clicked one that another follows was no use."""
    sessions = [("a", ("shoes", "boots")), ("b", ("shoes", "hats", "boots"))]
    clicks = [("a", "boots", "https://example/1"), ("b", "hats", "https://example/2")]
    data = prepared(tiny_log(sessions, clicks=clicks, parts=2, reverse=True))
    expected = [0.0, 1 / 3, 0.0, 0.0, 0.0]  # one clicked and followed, none of them useful
    assert list(usefulness(data, "background")) == pytest.approx(expected)
    with pytest.raises(InputError, match="no query was clicked"):
        list(usefulness(prepared(tiny_log(sessions)), "background"))

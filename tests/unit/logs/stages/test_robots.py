"""Programs that search by themselves are told from people by how much they ask, not how often."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import narwhals as nw
import polars as pl
import pytest

from nextquery.logs.cleaning import Events, RobotCounts, RobotRule, Texts, leave_out_robots
from nextquery.logs.engines.base import Engine, Frame

RULE = RobotRule(queries_per_hour=10, queries=30)
NOON = datetime(2024, 3, 1, 12)


def events_of(engine: Engine, tmp_path: Path, typed: list[tuple[int, datetime, int]]) -> Events:
    table = pl.DataFrame(typed, ["user_id", "time", "query_id"], orient="row")
    table.with_row_index("row").write_parquet(tmp_path / "events.parquet")
    return Events(engine.scan(tmp_path), cast(Texts, None))


def users_left(rows: Frame) -> list[int]:
    found = rows.select("user_id").unique().sort("user_id").collect("polars")
    return [int(user) for user in found["user_id"].to_list()]


def visits(
    user: int, queries: int, different: int, pause: timedelta
) -> list[tuple[int, datetime, int]]:
    return [(user, NOON + number * pause, number % different) for number in range(queries)]


def test_who_asks_too_much_in_an_hour_or_in_all(engine: Engine, tmp_path: Path) -> None:
    second, day = timedelta(seconds=1), timedelta(days=1)
    typed = [
        *visits(1, 11, 11, second),  # a burst of a program
        *visits(2, 10, 10, second),  # as much as a person may
        *visits(3, 50, 10, second),  # a person who turns pages
        *visits(4, 31, 31, day),  # a slow program with a long list
        *visits(5, 30, 30, day),
        *visits(6, 12, 12, timedelta(minutes=10)),  # spread over two hours
    ]
    left, counts = leave_out_robots(engine, events_of(engine, tmp_path, typed), RULE)
    assert users_left(left.rows) == [2, 3, 5, 6]
    assert counts == RobotCounts(2, 42)
    assert left.rows.select(nw.len()).collect("polars").item() == len(typed) - 42


@pytest.mark.parametrize("queries", [5, 11])
def test_without_robots_the_rows_are_the_same(engine: Engine, tmp_path: Path, queries: int) -> None:
    events = events_of(engine, tmp_path, visits(1, queries, 5, timedelta(seconds=1)))
    left, counts = leave_out_robots(engine, events, RULE)
    assert left is events
    assert counts == RobotCounts()

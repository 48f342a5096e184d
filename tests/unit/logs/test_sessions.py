"""Sessions, splits and limits per user, by hand and against a plain loop."""

from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nextquery.errors import InputError
from nextquery.logs.engines import open_engine
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.sessions import (
    SPLIT_CODES,
    LimitCounts,
    SessionRows,
    SplitRule,
    UserLimit,
    find_sessions,
    last_days_cuts,
    limit_users,
    paper_cuts,
    parse_cuts,
    parse_days,
)

from .conftest import scan_rows

START = datetime(2024, 1, 1)
Row = tuple[int, int, int, int | None]
"""User, minute, query and clicked URL."""


def _sessions(
    engine: Engine, folder: Path, rows: list[Row], most: int = 500, split: nw.Expr | None = None
) -> list[dict[str, Any]]:
    return _in_order(_session_rows(engine, folder, rows, most, split).queries)


def _in_order(queries: Frame) -> list[dict[str, Any]]:
    table = queries.collect("polars").rows(named=True)
    return sorted(table, key=lambda row: (row["session"], row["position"]))


def _session_rows(
    engine: Engine, folder: Path, rows: list[Row], most: int = 500, split: nw.Expr | None = None
) -> SessionRows:
    frame = pl.DataFrame(
        [(user, START + timedelta(minutes=minute), *rest) for user, minute, *rest in rows],
        schema=dict.fromkeys(("user_id", "time", "query_id", "url_id"), pl.Int64)
        | {"time": pl.Datetime("us")},
        orient="row",
    ).with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64))
    ordered = engine.sort_rows(scan_rows(engine, folder, frame), "ordered")
    rule = nw.lit(0) if split is None else split
    return find_sessions(engine, ordered, rule, idle_minutes=30, max_queries=most)


def _shape(rows: list[dict[str, Any]]) -> list[tuple[int, int, int, int, int | None, bool]]:
    columns = ("session", "position", "query_id", "clicks", "next_id", "single")
    return [tuple(row[column] for column in columns) for row in rows]


def test_a_pause_ends_a_session_and_half_an_hour_does_not(engine: Engine, tmp_path: Path) -> None:
    rows: list[Row] = [(1, 0, 7, None), (1, 30, 8, None), (1, 61, 9, None)]
    assert _shape(_sessions(engine, tmp_path / "rows", rows)) == [
        (0, 0, 7, 0, 8, False),
        (0, 1, 8, 0, None, False),
        (2, 0, 9, 0, None, True),
    ]


def test_repeats_are_one_query_with_their_clicks_summed(engine: Engine, tmp_path: Path) -> None:
    rows: list[Row] = [(1, 0, 7, 1), (1, 1, 7, 2), (1, 2, 7, None), (1, 3, 8, 1), (1, 4, 7, 1)]
    assert _shape(_sessions(engine, tmp_path / "rows", rows)) == [
        (0, 0, 7, 2, 8, False),
        (0, 1, 8, 1, 7, False),
        (0, 2, 7, 1, None, False),
    ]


def test_equal_times_keep_the_order_of_the_file(engine: Engine, tmp_path: Path) -> None:
    rows: list[Row] = [(1, 0, query, None) for query in (5, 3, 9, 1)]
    result = _sessions(engine, tmp_path / "rows", rows)
    assert [row["query_id"] for row in result] == [5, 3, 9, 1]


def test_a_session_of_too_many_queries_is_cut(engine: Engine, tmp_path: Path) -> None:
    queries = (7, 8, 8, 7, 9, 7, 8)  # six without the repeat
    rows: list[Row] = [(1, minute, query, 1) for minute, query in enumerate(queries)]
    rows += [(2, 0, 7, None), (2, 1, 8, None), (2, 2, 9, None)]
    result = _sessions(engine, tmp_path / "rows", rows, most=3)
    assert _shape(result) == [
        (0, 0, 7, 1, 8, False),
        (0, 1, 8, 2, 7, False),
        (0, 2, 7, 1, None, False),
        (4, 0, 9, 1, 7, False),
        (4, 1, 7, 1, 8, False),
        (4, 2, 8, 1, None, False),
        (7, 0, 7, 0, 8, False),
        (7, 1, 8, 0, 9, False),
        (7, 2, 9, 0, None, False),
    ]
    assert [row["session"] for row in result if row["too_long"]] == [4]


def test_a_run_that_is_cut_twice_counts_once(engine: Engine, tmp_path: Path) -> None:
    rows: list[Row] = [(1, minute, minute, None) for minute in range(7)]
    result = _sessions(engine, tmp_path / "rows", rows, most=3)
    assert [row["session"] for row in result] == [0, 0, 0, 3, 3, 3, 6]
    assert [row["single"] for row in result] == [False] * 6 + [True]
    assert sum(row["too_long"] for row in result) == 1


def test_each_part_of_a_cut_session_is_in_the_split_of_its_first_query(
    engine: Engine, tmp_path: Path
) -> None:
    rows: list[Row] = [(1, minute, minute, None) for minute in range(6)]
    late = (nw.col("time") >= START + timedelta(minutes=3)).cast(nw.Int64)
    result = _sessions(engine, tmp_path / "rows", rows, most=3, split=late)
    assert [row["split"] for row in result] == [0, 0, 0, 1, 1, 1]


DAY = 24 * 60


def test_a_user_s_repeats_of_a_day_count_up_to_the_limit(engine: Engine, tmp_path: Path) -> None:
    repeated = [(1, 10 * n, 7 if n % 2 == 0 else 8 + n, 5) for n in range(7)]  # 7 9 7 11 7 13 7
    rows: list[Row] = [*repeated, (1, DAY, 7, 5), (2, 0, 7, None), (2, 1, 7, None)]
    sessions = _session_rows(engine, tmp_path / "rows", rows)
    limited, counts = limit_users(engine, sessions, UserLimit(2, 1.0))
    assert _shape(_in_order(limited.queries)) == [
        (0, 0, 7, 1, 9, False),
        (0, 1, 9, 1, 7, False),
        (0, 2, 7, 1, 11, False),
        (0, 3, 11, 1, 13, False),
        (0, 4, 13, 1, None, False),
        (7, 0, 7, 1, None, True),  # the next day
        (8, 0, 7, 0, None, True),
    ]
    assert counts == LimitCounts(1, 2)
    clicks = limited.clicks.collect("polars").to_native()
    assert clicks.filter(pl.col("query_id") == 7).height == 3, "two and one of the next day"
    assert clicks.height == 6


def test_positions_are_renumbered_after_a_limit(engine: Engine, tmp_path: Path) -> None:
    # 7 8 7 9 8 7 8: the third 7 and the third 8 go.
    queries = (7, 8, 7, 9, 8, 7, 8)
    rows: list[Row] = [(1, minute, query, None) for minute, query in enumerate(queries)]
    rows += [(1, 100, 7, None), (1, 101, 4, None)]
    limited, _ = limit_users(
        engine, _session_rows(engine, tmp_path / "rows", rows), UserLimit(1, 1.0)
    )
    assert _shape(_in_order(limited.queries)) == [
        (0, 0, 7, 0, 8, False),
        (0, 1, 8, 0, 9, False),
        (0, 2, 9, 0, None, False),
        (7, 0, 4, 0, None, True),
    ]


def test_a_user_with_an_outsized_share_keeps_the_newest(engine: Engine, tmp_path: Path) -> None:
    loud: list[Row] = [(1, 40 * n, n, 1) for n in range(150)]
    rows = loud + [(user, 0, 7, None) for user in range(2, 52)]
    sessions = _session_rows(engine, tmp_path / "rows", rows)
    # 200 searches of 51 users: twenty times the mean is 78.
    limited, counts = limit_users(engine, sessions, UserLimit(5, 0.01))
    theirs = [row["query_id"] for row in _in_order(limited.queries) if row["user_id"] == 1]
    assert theirs == list(range(72, 150))
    assert counts == LimitCounts(1, 72)
    assert limited.clicks.collect("polars").to_native().height == 78


def test_a_share_within_the_limit_is_left_alone(engine: Engine, tmp_path: Path) -> None:
    rows: list[Row] = [(1, 40 * n, n, 1) for n in range(30)]
    sessions = _session_rows(engine, tmp_path / "rows", [*rows, (2, 0, 7, None)])
    same, nobody = limit_users(engine, sessions, UserLimit(5, 0.01))
    assert same is sessions
    assert nobody == LimitCounts()


def test_later_splits_are_not_limited(engine: Engine, tmp_path: Path) -> None:
    rows: list[Row] = [(1, 40 * n, 7, 1) for n in range(4)]
    late = (nw.col("time") >= START + timedelta(minutes=80)).cast(nw.Int8)
    sessions = _session_rows(engine, tmp_path / "rows", rows, split=late)
    limited, _ = limit_users(engine, sessions, UserLimit(1, 1.0))
    assert [row["session"] for row in _in_order(limited.queries)] == [0, 2, 3]
    assert limited.clicks.collect("polars").to_native().height == 3


def _by_hand(rows: list[Row], most: int) -> list[tuple[int, int, int, int]]:
    """Session, position, query and clicks, found with plain loops."""
    numbered = sorted((user, minute, row) for row, (user, minute, *_) in enumerate(rows))
    result: list[tuple[int, int, int, int]] = []
    for _, group in groupby(numbered, key=lambda item: item[0]):
        last_minute = None
        for _, minute, row in group:
            query, click = rows[row][2], int(rows[row][3] is not None)
            if last_minute is None or minute - last_minute > 30:
                result.append((row, 0, query, click))
            elif result[-1][2] == query:
                session, position, _, clicks = result[-1]
                result[-1] = (session, position, query, clicks + click)
            elif result[-1][1] + 1 == most:
                result.append((row, 0, query, click))
            else:
                result.append((result[-1][0], result[-1][1] + 1, query, click))
            last_minute = minute
    return sorted(result)


ROWS = st.lists(
    st.tuples(
        st.integers(1, 3), st.integers(0, 150), st.integers(1, 3), st.none() | st.integers(1, 2)
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.slow
@given(rows=ROWS, most=st.integers(2, 6) | st.just(500))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows_give_what_a_plain_loop_finds(
    rows: list[Row], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    result = _sessions(open_engine("polars", folder / "work"), folder / "rows", rows, most)
    shape = [(row["session"], row["position"], row["query_id"], row["clicks"]) for row in result]
    assert shape == _by_hand(rows, most)


CUTS = (datetime(2006, 5, 1), datetime(2006, 5, 15), datetime(2006, 5, 23))


def test_the_papers_log_is_cut_where_the_paper_cuts_it() -> None:
    assert paper_cuts(datetime(2006, 3, 1), datetime(2006, 6, 1)) == CUTS


def test_times_are_read_in_the_logs_zone() -> None:
    assert parse_cuts("2006-05-01,2006-05-15,2006-05-23", "UTC") == CUTS
    first, second, _ = parse_cuts(
        "2006-05-01T00:00,2006-05-15T00:00+02:00,2006-05-23", "America/New_York"
    )
    assert first == datetime(2006, 5, 1, 4)
    assert second == datetime(2006, 5, 14, 22)


@pytest.mark.parametrize(
    "text",
    [
        "2006-05-01",
        "2006-05-01,2006-05-15,soon",
        "2006-05-15,2006-05-01,2006-05-23",
        "2006-05-01,2006-05-01,2006-05-23",
        "2006-05-01,2006-05-15,2006-05-23,2006-05-30",
    ],
)
def test_bad_times_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="`split_at`"):
        parse_cuts(text, "UTC")


def _split(rule: SplitRule, begin: datetime, user: int = 2**62) -> str:
    frame = pl.DataFrame({"time": [begin], "user": [user]}).cast({"time": pl.Datetime("us")})
    users = nw.from_native(frame, eager_only=True).with_columns(held_out=rule.held_out())
    code = users.select(split=rule.split())["split"][0]
    return {code: name for name, code in SPLIT_CODES.items()}[code]


@pytest.mark.parametrize(
    ("begin", "split"),
    [
        (datetime(2006, 4, 30, 23, 59, 59), "background"),
        (datetime(2006, 5, 1), "training"),
        (datetime(2006, 5, 15), "validation"),
        (datetime(2006, 5, 22, 23, 59, 59), "validation"),
        (datetime(2006, 5, 23), "test"),
    ],
)
def test_a_session_belongs_to_the_split_of_its_first_query(begin: datetime, split: str) -> None:
    assert _split(SplitRule(CUTS), begin) == split


def test_users_with_the_lowest_pseudonyms_are_held_out() -> None:
    rule = SplitRule(CUTS, holdout_users=0.5)
    assert _split(rule, CUTS[0], user=2**62 - 1) == "unseen_users"
    assert _split(rule, CUTS[0], user=2**62) == "training"
    assert _split(SplitRule(CUTS), CUTS[0], user=0) == "training"


@pytest.mark.parametrize("time", ["0001-01-01", "9999-12-31", "1899-12-31"])
def test_years_that_no_log_has_are_refused(time: str) -> None:
    with pytest.raises(InputError, match="give a year from 1900 to 2200"):
        parse_cuts(f"{time},2006-05-15,2006-05-23", "Asia/Tokyo")


def test_the_last_days_move_on_with_the_log() -> None:
    for day in (10, 11):
        last = datetime(2026, 5, day, 23, 59, 30, 5)
        assert last_days_cuts(last, parse_days("2,1,0.5")) == (
            datetime(2026, 5, day - 3, 11, 59, 30),
            datetime(2026, 5, day - 1, 11, 59, 30),
            datetime(2026, 5, day, 11, 59, 30),
        )


@pytest.mark.parametrize(
    "text", ["1,1", "1,1,1,1", "1,0,1", "1,-1,1", "a,b,c", "nan,1,1", "1,1,1e9"]
)
def test_bad_days_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="`split_days`"):
        parse_days(text)

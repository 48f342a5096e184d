from datetime import datetime

import narwhals as nw
import polars as pl
import pytest

from nextquery.errors import InputError
from nextquery.logs.sessions import (
    SPLIT_CODES,
    SplitRule,
    last_days_cuts,
    paper_cuts,
    parse_cuts,
    parse_days,
)

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


def test_the_lowest_pseudonyms_are_held_out() -> None:
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

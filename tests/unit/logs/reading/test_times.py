from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import LogError
from nextquery.logs.reading import times
from nextquery.logs.reading.times import check_time_zone, parse_times

MOMENTS = st.datetimes(datetime(1990, 1, 2), datetime(2099, 12, 30))


def parse(text: str, time_zone: str = "UTC") -> tuple[datetime | None, str | None]:
    (row,) = parse_times(pl.Series([text], dtype=pl.String), time_zone).rows()
    return row


@pytest.mark.parametrize(
    "text",
    [
        "2006-03-01 07:17:12",
        "2006-03-01T07:17:12",
        "2006-03-01T07:17:12Z",
        "2006-03-01T07:17:12.000Z",
        "2006-03-01 07:17:12 UTC",
        "2006-03-01T08:17:12+01:00",
        "2006-03-01T08:17:12+0100",
        "2006-03-01T08:17:12+01",
        "2006-03-01T01:47:12-05:30",
        "1141197432",
        "1141197432.0",
        "1141197432000",
        " 2006-03-01T07:17:12Z ",
    ],
)
def test_spellings_of_one_moment(text: str) -> None:
    assert parse(text) == (datetime(2006, 3, 1, 7, 17, 12), None)


def test_fractions_and_missing_seconds() -> None:
    assert parse("2006-03-01T07:17:12.25+00:00")[0] == datetime(2006, 3, 1, 7, 17, 12, 250000)
    assert parse("2006-03-01 07:17")[0] == datetime(2006, 3, 1, 7, 17)
    assert parse("1141197432250")[0] == datetime(2006, 3, 1, 7, 17, 12, 250000)
    assert parse("1141197432.5")[0] == datetime(2006, 3, 1, 7, 17, 12, 500000)


@pytest.mark.parametrize(
    "text", ["", "soon", "2006-03-01", "2006-13-01 00:00:00", "2006-02-30T10:00:00Z", "-5", "12:30"]
)
def test_what_is_no_time_is_not_understood(text: str) -> None:
    assert parse(text) == (None, times.NOT_UNDERSTOOD)


@pytest.mark.parametrize("text", ["0", "18120301071712", "1812-01-01 00:00:00", "99999999999"])
def test_times_of_no_search_are_out_of_range(text: str) -> None:
    assert parse(text) == (None, times.OUT_OF_RANGE)


@given(MOMENTS, st.integers(-14 * 60, 14 * 60))
def test_iso_with_an_offset_agrees_with_the_standard_library(
    moment: datetime, minutes: int
) -> None:
    sign = "-" if minutes < 0 else "+"
    offset = f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    text = moment.isoformat(sep="T", timespec="microseconds") + offset
    assert parse(text, "Asia/Tokyo")[0] == moment - timedelta(minutes=minutes)


@given(MOMENTS.map(lambda moment: moment.replace(microsecond=0, fold=0)))
def test_naive_times_agree_with_the_standard_library_or_are_skipped(moment: datetime) -> None:
    zone = ZoneInfo("Europe/Paris")
    utc = moment.replace(tzinfo=zone).astimezone(UTC)
    exists = utc.astimezone(zone).replace(tzinfo=None) == moment
    expected = (utc.replace(tzinfo=None), None) if exists else (None, times.SKIPPED)
    assert parse(str(moment), "Europe/Paris") == expected


def test_repeated_hour_means_the_earlier_reading() -> None:
    # New York sets its clocks back at 2 o'clock: 1:30 is first 5:30 UTC, then 6:30 UTC.
    assert parse("2006-10-29 01:30:00", "America/New_York")[0] == datetime(2006, 10, 29, 5, 30)


def test_skipped_hour_is_refused() -> None:
    assert parse("2006-04-02 02:30:00", "America/New_York") == (None, times.SKIPPED)
    assert parse("2006-04-02T02:30:00", "America/New_York") == (None, times.SKIPPED)
    assert parse("2006-04-02 03:30:00", "America/New_York")[0] == datetime(2006, 4, 2, 7, 30)


def test_one_odd_time_leaves_the_others_as_they_are() -> None:
    usual = ["2006-03-01 07:17:12"] * 3
    found = parse_times(pl.Series([*usual[:1], "never", None, *usual[1:]]), "UTC")
    assert found["time"].is_not_null().to_list() == [True, False, False, True, True]
    assert found["fault"][1] == times.NOT_UNDERSTOOD


def test_a_format_s_own_pattern_is_the_only_one() -> None:
    found = parse_times(pl.Series(["970916105432", "1141197432"]), "UTC", "%y%m%d%H%M%S")
    assert found["time"].to_list() == [datetime(1997, 9, 16, 10, 54, 32), None]


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc", "CEST!"])
def test_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(LogError, match="unknown; use a name such as"):
        check_time_zone(name)


@pytest.mark.parametrize("name", ["Factory", "localtime", "posix/UTC", "posixrules"])
def test_a_zone_that_only_one_database_knows_is_refused(name: str) -> None:
    with pytest.raises(LogError, match="unknown; use a name such as"):
        check_time_zone(name)

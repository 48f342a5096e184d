"""Times of every spelling, with and without a zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import LogError
from nextquery.logs.reading import times
from nextquery.logs.reading.times import AMBIGUOUS, check_time_zone, parse_times

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
def test_other_texts_are_not_understood_as_times(text: str) -> None:
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


def test_a_format_s_own_pattern_is_the_only_one() -> None:
    result = parse_times(pl.Series(["970916105432", "1141197432"]), "UTC", "%y%m%d%H%M%S")
    assert result["time"].to_list() == [datetime(1997, 9, 16, 10, 54, 32), None]


ONLY_IN_ONE_DATABASE = ("Factory", "localtime", "posix/UTC", "posixrules")


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc", "CEST!", *ONLY_IN_ONE_DATABASE])
def test_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(LogError, match="unknown; use a name such as"):
        check_time_zone(name)


QUARTER_PAST_TEN = datetime(2024, 3, 1, 10, 15)


@pytest.mark.parametrize(
    "text",
    [
        "2024/03/01 10:15:00", "2024/3/1 10:15", "2024.03.01 10:15", "20240301101500",
        "20240301T101500Z", "20240301T111500+0100", "01.03.2024 10:15:00", "1.3.2024, 10:15",
        "01/Mar/2024:10:15:00 +0000", "Fri, 01 Mar 2024 10:15:00 GMT", "1-Mar-2024 10:15:00",
        "Mar 1, 2024, 10:15:00 AM", "March 1, 2024 10:15 am", "3/1/2024 10:15:00 AM",
        "03/01/2024, 10:15 a.m.", "2024-03-01 10:15:00 GMT", "2024-03-01 10:15:00 AM",
        "1709288100000000", "1709288100000000000", " 01.03.2024 10:15 ",
    ],
)  # fmt: skip
def test_one_moment_in_many_formats(text: str) -> None:
    assert parse(text) == (QUARTER_PAST_TEN, None)


@pytest.mark.parametrize(
    ("text", "hour"), [("12:15 AM", 0), ("12:15 PM", 12), ("1:15 pm", 13), ("11:15 p.m.", 23)]
)
def test_the_two_halves_of_a_day(text: str, hour: int) -> None:
    assert parse(f"3/1/2024 {text}")[0] == datetime(2024, 3, 1, hour, 15)


def test_day_or_month_first_is_not_guessed() -> None:
    assert parse("03/01/2024 10:15") == (None, AMBIGUOUS)
    assert parse("31/12/2024 10:15:00") == (None, AMBIGUOUS)


def test_each_row_is_read_by_itself_in_the_given_zone() -> None:
    texts = pl.Series(["01.03.2024 11:15", "2024-03-01 11:15:00", None, "1709288100", "soon"])
    result = parse_times(texts, "Europe/Berlin")["time"].to_list()
    assert result == [QUARTER_PAST_TEN, QUARTER_PAST_TEN, None, QUARTER_PAST_TEN, None]

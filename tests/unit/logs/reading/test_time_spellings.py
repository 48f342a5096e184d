from datetime import datetime

import polars as pl
import pytest

from nextquery.logs.reading.times import AMBIGUOUS, NOT_UNDERSTOOD, parse_times

QUARTER_PAST_TEN = datetime(2024, 3, 1, 10, 15)


def parsed(text: str) -> tuple[datetime | None, str | None]:
    time, fault = parse_times(pl.Series([text]), "UTC").row(0)
    return time, fault


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
def test_one_time_in_many_words(text: str) -> None:
    assert parsed(text) == (QUARTER_PAST_TEN, None)


@pytest.mark.parametrize(
    ("text", "hour"), [("12:15 AM", 0), ("12:15 PM", 12), ("1:15 pm", 13), ("11:15 p.m.", 23)]
)
def test_the_two_halves_of_a_day(text: str, hour: int) -> None:
    assert parsed(f"3/1/2024 {text}")[0] == datetime(2024, 3, 1, hour, 15)


def test_day_or_month_first_is_not_guessed() -> None:
    assert parsed("03/01/2024 10:15") == (None, AMBIGUOUS)
    assert parsed("31/12/2024 10:15:00") == (None, AMBIGUOUS)


@pytest.mark.parametrize("text", ["31.13.2023 10:00", "99999999999999", "1 Foo 2024 10:00", "x"])
def test_what_is_no_time_stays_none(text: str) -> None:
    assert parsed(text) == (None, NOT_UNDERSTOOD)


def test_each_row_is_read_by_itself_in_the_given_zone() -> None:
    texts = pl.Series(["01.03.2024 11:15", "2024-03-01 11:15:00", None, "1709288100", "soon"])
    found = parse_times(texts, "Europe/Berlin")["time"].to_list()
    assert found == [QUARTER_PAST_TEN, QUARTER_PAST_TEN, None, QUARTER_PAST_TEN, None]

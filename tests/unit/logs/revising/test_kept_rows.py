"""Which rows go and where the others then stand, by hand."""

from datetime import datetime

import numpy as np
import polars as pl

from nextquery.logs.reading.read_logs import FileRows
from nextquery.logs.revise import Places, Removal, find_places

FILES = (FileRows("one", 4), FileRows("two", 3), FileRows("three", 2))
ROWS = pl.LazyFrame(
    {
        "place": [2, 3, 5, 6, 9],
        "user": ["1", "2", "1", "2", "2"],
        "time": [datetime(2024, 1, day) for day in (1, 2, 3, 4, 5)],
    }
)
REJECTED = pl.DataFrame(
    {"place": [4, 7, 8], "user": ["1", None, None], "time": [None, None, None]},
    schema={"place": pl.Int64, "user": pl.String, "time": pl.Datetime("us")},
)


def test_a_user_s_rows_go_accepted_and_rejected() -> None:
    places = find_places(ROWS, REJECTED, FILES, Removal(users=frozenset({"1"})))
    assert places.removed.tolist() == [2, 4, 5]


def test_a_rejected_row_without_a_time_goes_with_its_neighbour_in_the_file() -> None:
    # 4 follows a row of 2 January, 7 one of 4 January, 8 comes before one of 5 January.
    before = datetime(2024, 1, 3)
    assert find_places(ROWS, REJECTED, FILES, Removal(before=before)).removed.tolist() == [2, 3, 4]
    before = datetime(2024, 1, 5)
    found = find_places(ROWS, REJECTED, FILES, Removal(before=before)).removed.tolist()
    assert found == [2, 3, 4, 5, 6, 7]


def test_lines_and_files_move_up() -> None:
    places = Places(np.array([2, 4, 8, 9]), FILES)
    assert places.moved(pl.Series([1, 3, 5, 6, 7])).to_list() == [1, 2, 3, 4, 5]
    assert places.lines(pl.Series([1, 3, 5, 6, 7])).to_list() == [1, 2, 1, 2, 3]
    assert places.remaining_files() == (FileRows("one", 2), FileRows("two", 3))


def test_what_is_unknown_stays() -> None:
    row = pl.DataFrame(
        {"user": [None], "time": [None]}, schema={"user": pl.String, "time": pl.Datetime("us")}
    )
    removal = Removal(frozenset({"1"}), datetime(2024, 1, 1))
    assert row.select(removal.goes()).to_series().to_list() == [False]

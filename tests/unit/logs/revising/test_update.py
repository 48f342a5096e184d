from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from nextquery.errors import InputError
from nextquery.logs.revising.update import update
from nextquery.logs.stages.journal import ROWS


def test_new_rows_come_after_the_old_ones(data: Path, log: Path) -> None:
    before = pl.read_parquet(data / ROWS)
    found = update(data, [log])
    after = pl.read_parquet(data / ROWS)
    assert (found.rows_added, found.rows_removed) == (41, 0)
    assert after.head(len(before)).equals(before)
    # The file has 42 rows, its header included.
    assert after["place"].to_list()[len(before)] == before["place"][0] + 42


@pytest.mark.parametrize(("days", "first"), [(31, 4), (30, 5), (1, 5), (100_000, 1)])
def test_the_last_days_are_kept_the_last_one_included(data: Path, days: int, first: int) -> None:
    update(data, [], keep_days=days)
    assert pl.read_parquet(data / ROWS)["time"].min() == datetime(2006, first, 1, 10, 0)


def test_something_must_be_done(data: Path) -> None:
    with pytest.raises(InputError, match="nothing to do"):
        update(data, [])
    with pytest.raises(InputError, match="`keep_days`"):
        update(data, [], keep_days=0)


def test_a_job_that_is_run_again_adds_nothing_twice(data: Path, log: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.tsv"
    later.write_bytes(log.read_bytes())
    assert update(data, [log, later], new_only=True).rows_added == 41, "the folder has the first"
    before = (data / "manifest.json").read_bytes()
    again = update(data, [log, later], new_only=True)
    assert (again.rows_added, (data / "manifest.json").read_bytes()) == (0, before)
    update(data, [log, later], new_only=True, out=tmp_path / "out")
    assert (tmp_path / "out" / ROWS).read_bytes() == (data / ROWS).read_bytes()

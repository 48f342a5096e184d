"""What the journal keeps of a row, and what it does not."""

import stat
from pathlib import Path

import polars as pl

from nextquery.logs.cleaning import REJECTED_OWNERS, ROWS
from nextquery.logs.prepare import prepare
from nextquery.logs.privacy import pseudonym
from nextquery.logs.settings import PrepareSettings, ReadSettings

ROW = "{}\t{}\t2006-0{}-01 10:0{}:00\t1\thttp://x.example\n"


def test_the_journal_has_every_row_and_no_text_that_was_dropped(tmp_path: Path) -> None:
    rows = [ROW.format("ann", "Red Shoes!", month, n) for month in (1, 2, 3, 4, 5) for n in (1, 2)]
    rows.insert(1, ROW.format("ann", "jane@example.com", 1, 1))
    rows.insert(3, ROW.format("ann", "Red  boots", 1, 3))
    (tmp_path / "log.tsv").write_text("".join([*rows, "bob\tbroken\n"]))
    prepare(
        [tmp_path / "log.tsv"],
        tmp_path / "data",
        PrepareSettings(ReadSettings(max_rejected=1), min_users=1),
    )
    found = pl.read_parquet(tmp_path / "data" / ROWS)
    assert found["place"].to_list() == list(range(1, 13))
    assert set(found["user"]) == {str(pseudonym("ann"))}
    kept = ("query", "click", "drop")
    assert found.select(kept).rows()[:4] == [
        ("red shoes", "http://x.example", None),
        (None, None, "personal"),
        ("red shoes", "http://x.example", None),
        ("red boots", "http://x.example", None),
    ]
    owners = pl.read_parquet(tmp_path / "data" / REJECTED_OWNERS)
    assert owners.rows() == [(13, str(pseudonym("bob")), None)]
    for name in (ROWS, REJECTED_OWNERS):
        assert stat.S_IMODE((tmp_path / "data" / name).stat().st_mode) == 0o600

"""Where the splits are cut, and a background that is empty."""

from datetime import datetime
from pathlib import Path

import narwhals as nw
import polars as pl
import pytest

from nextquery.errors import LogError
from nextquery.logs.prepare import prepare, split_rule
from nextquery.logs.settings import PrepareSettings

TIMES = nw.from_native(pl.LazyFrame({"time": [datetime(2006, 3, 1), datetime(2006, 6, 1)]}))


def test_cuts_are_the_paper_s_proportions_or_those_given() -> None:
    # 92 days: 61, 14 and 8 of them.
    assert split_rule(TIMES, PrepareSettings()).cuts == (
        datetime(2006, 5, 1),
        datetime(2006, 5, 15),
        datetime(2006, 5, 23),
    )
    given = PrepareSettings(split_at="2006-04-01,2006-04-02,2006-04-03", holdout_users=0.5)
    rule = split_rule(TIMES, given)
    assert (rule.cuts[0], rule.holdout_users) == (datetime(2006, 4, 1), 0.5)


def test_a_log_without_sessions_before_the_first_cut_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("a\tred\t2006-03-01 10:00:00\t\t\n" * 2)
    with pytest.raises(LogError, match="no session of two or more queries in the background"):
        prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(min_users=1))

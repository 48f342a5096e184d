import gzip
import json
import os
import stat
from pathlib import Path

import polars as pl
import pytest

from nextquery.errors import LogError
from nextquery.logs.reading import rejects
from nextquery.logs.reading.rejects import RejectedRows, check_share


def listed(*reasons: str) -> pl.DataFrame:
    count = len(reasons)
    return pl.DataFrame(
        {
            "file": ["log"] * count,
            "line": range(count),
            "reason": reasons,
            "excerpt": ['"é'] * count,
            "place": range(count),
            "user": [None] * count,
            "time": [None] * count,
        }
    )


def test_rows_are_written_one_a_line_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "rejected.ndjson.gz"
    with RejectedRows(path) as rejected:
        rejected.add(listed("b", "a", "b"))
        rejected.add(listed())
        rejected.add(listed("c"))
    assert list(rejected.most_common().items()) == [("b", 2), ("a", 1), ("c", 1)]
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert rows[1] == {"file": "log", "line": 1, "reason": "a", "excerpt": '"é'}
    assert len(rows) == 4


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one.gz", "other.gz"):
        with RejectedRows(tmp_path / name) as rejected:
            rejected.add(listed("a"))
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "other.gz").read_bytes()
    assert (tmp_path / "one.gz").read_bytes()[4:8] == bytes(4)


def test_share_of_bad_rows_stops_the_job_with_three_reasons() -> None:
    reasons = {"d": 4, "c": 3, "b": 2, "a": 1}
    check_share(190, reasons, 0.05)
    with pytest.raises(LogError, match=r"10 of 199 rows are bad \(5\.0%.*\): d: 4; c: 3; b: 2;"):
        check_share(189, reasons, 0.05)
    check_share(1, reasons, 1.0)


def test_rows_set_aside_do_not_stop_the_job_unless_nothing_is_left() -> None:
    aside = dict.fromkeys(sorted(rejects.SET_ASIDE), 1000)
    check_share(1, aside, 0.0)
    with pytest.raises(LogError, match="no row is usable"):
        check_share(0, aside, 1.0)
    with pytest.raises(LogError, match=r"1 of 11 rows are bad"):
        check_share(10, aside | {rejects.NO_USER: 1}, 0.05)


def test_the_list_ends_after_very_many_rows_of_a_reason_and_the_counts_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "MOST_LISTED", 3)
    path = tmp_path / "rejected.ndjson.gz"
    with RejectedRows(path) as rejected:
        for _ in range(3):
            rejected.add(listed("a", "b", "a"))
    assert rejected.most_common() == {"a": 6, "b": 3}
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert [row["reason"] for row in rows] == ["a", "b", "a", "a", "b", "b"]


def test_excerpts_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rejected.ndjson.gz"
    with RejectedRows(path, excerpts=False) as rejected:
        rejected.add(listed("a"))
    assert json.loads(gzip.decompress(path.read_bytes())) == {
        "file": "log",
        "line": 0,
        "reason": "a",
    }


def test_only_the_owner_may_read_the_list(tmp_path: Path) -> None:
    with RejectedRows(tmp_path / "list"):
        assert stat.S_IMODE((tmp_path / "list").stat().st_mode) == 0o600


def test_a_path_that_is_no_utf_8_can_be_written() -> None:
    assert rejects.printable(Path(os.fsdecode(b"l\xffg"))) == "l\\xffg"

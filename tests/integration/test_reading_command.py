"""What `prepare` says of the raw log: the format it found, the rows it left out, why it stops."""

import gzip
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.conftest import run_command

from nextquery.errors import LogError

EMPTY = "u0\t970916105432\t\n"


def prepare(log: Path, out: Path, *options: str) -> str:
    return run_command("prepare", log, "--out", out, "--min-users", "1", *options)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Ten users who each ask for shoes, then for boots, at all hours of a day."""
    lines = []
    for user in range(10):
        start = datetime(1997, 9, 16) + timedelta(hours=2 * user)
        for minute, query in enumerate(["red shoes", "red boots"]):
            time = start + timedelta(minutes=minute)
            lines.append(f"u{user}\t{time:%y%m%d%H%M%S}\t{query}\n")
    path = tmp_path / "log"
    path.write_text("".join(lines) + EMPTY)
    return path


def test_format_that_was_found_is_said_with_its_reason(log: Path, tmp_path: Path) -> None:
    said = prepare(log, tmp_path / "data")
    assert "read as excite: most of its first lines are user, yymmddhhmmss and query" in said
    assert "21 rows read, 1 rejected" in said


def test_rejected_rows_are_in_the_data_folder(log: Path, tmp_path: Path) -> None:
    counts = json.loads(prepare(log, tmp_path / "data", "--json"))["counts"]
    assert counts["rows_accepted"] + counts["rows_rejected"] == counts["rows_read"] == 21
    listed = gzip.decompress((tmp_path / "data" / "rejected.ndjson.gz").read_bytes())
    assert json.loads(listed) == {
        "file": str(log),
        "line": 21,
        "reason": "empty query",
        "excerpt": EMPTY.rstrip("\n"),
    }


def test_bad_log_stops_and_leaves_nothing_behind(log: Path, tmp_path: Path) -> None:
    with log.open("a") as stream:
        stream.write("nonsense\n" * 2)
    with pytest.raises(LogError, match=r"2 of 22 rows are bad .*: wrong number of columns: 2;"):
        prepare(log, tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    assert "23 rows read, 3 rejected" in prepare(log, tmp_path / "data", "--max-rejected", "0.1")

"""A small prepared log whose users are known."""

from pathlib import Path

import pytest

from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings

HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Four users, each with a session a month, and a row that is none."""
    rows = [
        f"{user}\t{query}\t2006-0{month}-01 10:0{minute}:00\t\t\n"
        for user in ("ann", "bob", "cat", "dan")
        for month in (1, 2, 3, 4, 5)
        for minute, query in enumerate(("red shoes", "red boots"))
    ]
    file = tmp_path / "log.tsv"
    file.write_text(HEADER + "".join(rows) + "ann\tbroken\n", encoding="utf-8")
    return file


@pytest.fixture
def data(log: Path, tmp_path: Path) -> Path:
    """The log prepared into a folder."""
    prepare([log], tmp_path / "data", PrepareSettings(min_users=1, spelling=False))
    return tmp_path / "data"

"""A query log of `ir_datasets`: its own records, of a small set registered under another name.

The AOL collection itself is not downloaded.
"""

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import ir_datasets
import pytest
from ir_datasets.datasets.aol_ia import AolQlog, LogItem
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import BaseQlogs

from nextquery.errors import LogError, MissingDependencyError
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.settings import ReadSettings
from nextquery.logs.sources import fetch_dataset

MOMENT = datetime(2006, 3, 1, 7, 17, 12)
LOGS = [
    AolQlog("7", "a", "red shoes", "Red\tShoes", MOMENT, ()),
    AolQlog(
        "7",
        "b",
        "red boots",
        "red boots",
        MOMENT,
        (LogItem("d1", 1, True), LogItem("d2", 2, False)),
    ),
]


class _Logs(BaseQlogs):  # type: ignore[misc]
    def qlogs_iter(self) -> Iterator[AolQlog]:
        return iter(LOGS)

    def qlogs_cls(self) -> Any:
        return AolQlog

    def qlogs_count(self) -> int:
        return len(LOGS)


@pytest.fixture(scope="module")
def name() -> str:
    ir_datasets.registry.register("nextquery-test-log", Dataset(_Logs()))
    return "nextquery-test-log"


def quiet(stage: str, share: float) -> None:
    assert stage == "fetching"


def test_its_rows_are_those_of_an_aol_file(name: str, tmp_path: Path) -> None:
    (file,) = fetch_dataset(name, tmp_path, quiet)
    assert file.read_text().splitlines()[1:] == [
        "7\tRed Shoes\t2006-03-01 07:17:12\t\t",
        "7\tred boots\t2006-03-01 07:17:12\t1\td1",
    ]
    assert read_logs([file], ReadSettings(), tmp_path / "work").format == "aol"
    assert fetch_dataset(name, tmp_path, quiet) == [file], "it is there already"


def test_what_is_no_query_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no-such-set: ir_datasets cannot load it"):
        fetch_dataset("no-such-set", tmp_path, quiet)
    with pytest.raises(LogError, match="vaswani: has no query log; aol-ia has one"):
        fetch_dataset("vaswani", tmp_path, quiet)


def test_without_the_library_its_name_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(MissingDependencyError, match="pip install ir_datasets"):
        fetch_dataset("aol-ia", tmp_path, quiet)

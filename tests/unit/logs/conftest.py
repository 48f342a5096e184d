"""Engines that start quickly (Spark is tested in tests/integration), and a small prepared log."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.logs.engines import open_engine
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.prepare import prepare
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.reading.rows import Layout, ParsedRows, parse_lines
from nextquery.logs.settings import PrepareSettings, ReadSettings


def parse_texts(layout: Layout, *lines: Any, first: int = 1) -> ParsedRows:
    """Parse lines, each a text, bytes or something to be written as JSON."""
    texts = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    numbers = pl.Series(range(first, first + len(texts)), dtype=pl.Int64)
    return parse_lines(layout, pl.DataFrame({"line": numbers, "text": texts}))


def read_rows(paths: Sequence[Path], work: Path, **choices: Any) -> tuple[ReadResult, pl.DataFrame]:
    """What `read_logs` says of files, and the accepted rows in order."""
    result = read_logs(paths, ReadSettings(**choices), work)
    return result, pl.read_parquet(work / "rows").sort("row")


def scan_rows(engine: Engine, folder: Path, rows: pl.DataFrame) -> Frame:
    """Rows as an engine reads them from a new folder."""
    folder.mkdir(parents=True)
    rows.write_parquet(folder / "part-00000.parquet")
    return engine.scan(folder)


HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"


def write_aol(file: Path, rows: Iterable[tuple[object, str, object]]) -> Path:
    """Write an AOL log of (user, query, time) without clicks."""
    lines = [f"{user}\t{query}\t{time}\t\t\n" for user, query, time in rows]
    file.write_text(HEADER + "".join(lines), encoding="utf-8")
    return file


@pytest.fixture(params=["polars", "duckdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(request.param, tmp_path / "work")
    yield opened
    opened.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Four users with one session per month each, and one malformed row."""
    rows = [
        (user, query, f"2006-0{month}-01 10:0{minute}:00")
        for user in ("ann", "bob", "cat", "dan")
        for month in (1, 2, 3, 4, 5)
        for minute, query in enumerate(("red shoes", "red boots"))
    ]
    file = write_aol(tmp_path / "log.tsv", rows)
    with file.open("a") as stream:
        stream.write("ann\tbroken\n")
    return file


@pytest.fixture
def data(log: Path, tmp_path: Path) -> Path:
    """The log prepared into a folder."""
    prepare([log], tmp_path / "data", PrepareSettings(min_users=1, spelling=False))
    return tmp_path / "data"

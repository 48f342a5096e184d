"""Engines that start quickly (Spark is tested in tests/integration), and a small prepared log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.logs.engines import open_engine
from nextquery.logs.engines.base import Engine
from nextquery.logs.prepare import prepare
from nextquery.logs.reading.rows import Layout, ParsedRows, parse_lines
from nextquery.logs.settings import PrepareSettings


def parse_texts(layout: Layout, *lines: Any, first: int = 1) -> ParsedRows:
    """Parse lines, each a text, bytes or something to be written as JSON."""
    texts = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    numbers = pl.Series(range(first, first + len(texts)), dtype=pl.Int64)
    return parse_lines(layout, pl.DataFrame({"line": numbers, "text": texts}))


HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"


@pytest.fixture(params=["polars", "duckdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(request.param, tmp_path / "work")
    yield opened
    opened.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Four users with one session per month each, and one malformed row."""
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

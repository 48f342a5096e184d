"""The engines that start quickly; Spark is tested in tests/integration."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nextquery.logs.engines.base import Engine
from nextquery.logs.engines.open import open_engine


@pytest.fixture(params=["polars", "duckdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(request.param, tmp_path / "work")
    yield opened
    opened.close()

"""A prepared data folder made from (user, queries) sessions, and a model folder with its tables."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nextquery.artifacts import publish
from nextquery.guard.tables import write_tables
from nextquery.logs.data_folder import PreparedData

DataMaker = Callable[[Sequence[tuple[str, Sequence[str]]], int], PreparedData]


@pytest.fixture
def make_data(prepared: Any, tiny_log: Any) -> DataMaker:
    return lambda sessions, min_users: prepared(tiny_log(sessions, min_users=min_users))


def publish_tables(data: PreparedData, folder: Path) -> Path:
    """A model folder with nothing but the tables of a log."""
    with publish(folder, "adjacency", {}) as partial:
        write_tables(data, partial)
    return folder

"""A small log with every split, and the parts of a blend made from it."""

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.conftest import make_untrained_hred

from nextquery import PreparedData, fit, prepare
from nextquery.records import Suggestion
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.blend import Blend, BlendSettings, make_blend
from nextquery.suggesters.rescue import Rescue

TOWNS = ("oslo", "rome", "paris", "lima")
NEXT = {"hotels": "hotel prices", "flights": "cheap flights", "museum": "opening hours"}


def rows() -> list[dict[str, str]]:
    """400 sessions of two queries: the second nearly always belongs to the first."""
    generator = random.Random(5)
    result = []
    for number in range(400):
        town, word = generator.choice(TOWNS), generator.choice(list(NEXT))
        second = NEXT[word] if generator.random() < 0.9 else "weather"
        start = datetime(2024, 1, 1) + timedelta(hours=2 * number)
        for minutes, query in enumerate((f"{town} {word}", f"{town} {second}")):
            time = (start + timedelta(minutes=minutes)).isoformat(" ")
            result.append({"user": f"u{number % 80}", "time": time, "query": query, "click": "x"})
    return result


def texts(suggestions: Sequence[Suggestion]) -> list[str]:
    return [item.text for item in suggestions]


def followers(model: Adjacency | Rescue, query: str) -> dict[str, float]:
    """What followed a query in the log, and how often."""
    following, counts = model.followers.most_frequent(model.background.queries[query], 100)
    names = map(model.background.text, following.tolist())
    return dict(zip(names, counts.tolist(), strict=True))


DataMaker = Callable[..., PreparedData]


@pytest.fixture(scope="session")
def data_of(prepared: Any, tiny_log: Any) -> DataMaker:
    """Makes a data folder of sessions, clicks and the other fields of a `TinyLog`."""
    return lambda *fields, **more_fields: prepared(tiny_log(*fields, **more_fields))


@pytest.fixture(scope="session")
def town_data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    folder = tmp_path_factory.mktemp("towns") / "data"
    return prepare(pl.DataFrame(rows()), folder, spelling=False, min_users=1)


@pytest.fixture(scope="session")
def parts(town_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """An untrained HRED, adjacency and Search Shortcuts."""
    folder = tmp_path_factory.mktemp("parts")
    make_untrained_hred(town_data, folder / "hred")
    for kind in ("adjacency", "shortcuts"):
        fit(town_data, kind, folder / kind)
    return [folder / kind for kind in ("hred", "adjacency", "shortcuts")]


@pytest.fixture(scope="session")
def blend(
    parts: list[Path], town_data: PreparedData, tmp_path_factory: pytest.TempPathFactory
) -> Blend:
    out = tmp_path_factory.mktemp("blend") / "blend"
    return make_blend(parts[0], parts[1:], town_data, out, BlendSettings(cases=200))

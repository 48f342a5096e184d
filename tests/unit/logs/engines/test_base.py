"""What the engines do each in their own way gives the same, on every engine that starts quickly."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import narwhals as nw
import polars as pl
import pytest

from nextquery.errors import InputError, MissingDependencyError
from nextquery.extras import EXTRAS
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.engines.open import open_engine


@pytest.fixture(params=["polars", "duckdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(request.param, tmp_path / "work")
    yield opened
    opened.close()


def _frame(engine: Engine, folder: Path, rows: pl.DataFrame) -> Frame:
    folder.mkdir(parents=True)
    rows.write_parquet(folder / "part-00000.parquet")
    return engine.scan(folder)


@pytest.mark.parametrize("step", [1, 2**40], ids=["packed", "too wide to pack"])
def test_tally_counts_rows_and_different_users(engine: Engine, tmp_path: Path, step: int) -> None:
    rows = pl.DataFrame(
        {"user_id": [0, 1, 1, 1, 0], "query_id": [3, 3, 3, 2, 3], "next_id": [5, 5, 5, 5, 6]}
    )
    frame = _frame(engine, tmp_path / "rows", rows.with_columns(pl.all() * step))
    found = engine.count_with_users(frame, ["query_id", "next_id"]).collect("polars")
    table = found.select("query_id", "next_id", "count", "users").rows()
    assert sorted((a // step, b // step, *rest) for a, b, *rest in table) == [
        (2, 5, 1, 1),
        (3, 5, 3, 2),
        (3, 6, 1, 1),
    ]


def test_parts_come_back_as_ids_and_dictionaries(engine: Engine, tmp_path: Path) -> None:
    users, urls = ["u", "v", "u", "w"], ["b", None, "a", "b"]
    rows = pl.DataFrame(
        {
            "user": users,
            "time": [datetime(2006, 3, 1, hour) for hour in range(4)],
            "query": ["red", "red", "blue", "red"],
            "click": urls,
            "row": range(4),
        }
    )
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, part in enumerate(rows.iter_slices(3)):
        engine.write_part(part, folder / f"part-{number:05}")
    span = engine.scan(folder).select(last=nw.col("time").max()).collect("polars").item()
    assert span == datetime(2006, 3, 1, 3)
    read = engine.scan(folder).sort("row").collect("polars").to_native()
    assert read.select(rows.columns).equals(rows)
    ids = {"user": "user_id", "query": "query_id", "click": "url_id"}
    coded, dictionaries = engine.scan_encoded(folder, ids, unordered=("user", "query"))
    table = coded.sort("row").collect("polars")
    for (name, key), dictionary in zip(ids.items(), dictionaries, strict=True):
        texts = dict(dictionary.select(key, name).collect("polars").rows())
        assert [texts.get(found) for found in table[key].to_list()] == rows[name].to_list()
    clicked = dict(dictionaries[2].select("click", "url_id").collect("polars").rows())
    assert clicked["a"] < clicked["b"]


def test_side_by_side_gives_both_results_and_the_first_error(engine: Engine) -> None:
    assert engine.side_by_side(lambda: 1, lambda: "two") == (1, "two")

    def fail() -> None:
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        engine.side_by_side(lambda: 1, fail)
    with pytest.raises(InputError, match="no"):
        engine.side_by_side(fail, lambda: 1)


def test_an_unknown_engine_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`engine` abacus: not one of polars, duckdb, spark"):
        open_engine("abacus", tmp_path)


def test_an_engine_without_its_extra_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "duckdb", ("no_such_module",))
    with pytest.raises(MissingDependencyError, match=r"pip install 'nextquery\[duckdb\]'"):
        open_engine("duckdb", tmp_path)

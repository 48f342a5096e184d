"""Polars, DuckDB and Spark: the same tables from every engine, and which engine is chosen."""

import gzip
import signal
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import narwhals as nw
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import EXTRAS, InputError, MissingDependencyError
from nextquery.logs.engines import base, open_engine, polars, relational
from nextquery.logs.engines.base import (
    Engine,
    Frame,
    Rows,
    allowed_memory,
    choose_engine,
    free_memory,
    unpacked_size,
)
from nextquery.logs.engines.polars import PolarsEngine, count_packed
from nextquery.logs.engines.relational import DuckdbEngine

from .conftest import scan_rows


@pytest.mark.parametrize("step", [1, 2**40], ids=["packed", "too wide to pack"])
def test_tally_counts_rows_and_different_users(engine: Engine, tmp_path: Path, step: int) -> None:
    rows = pl.DataFrame(
        {"user_id": [0, 1, 1, 1, 0], "query_id": [3, 3, 3, 2, 3], "next_id": [5, 5, 5, 5, 6]}
    )
    frame = scan_rows(engine, tmp_path / "rows", rows.with_columns(pl.all() * step))
    result = engine.count_with_users(frame, ["query_id", "next_id"]).collect("polars")
    table = result.select("query_id", "next_id", "count", "users").rows()
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
        part.write_parquet(folder / f"part-{number:05}.parquet")
    span = engine.scan(folder).select(last=nw.col("time").max()).collect("polars").item()
    assert span == datetime(2006, 3, 1, 3)
    read = engine.scan(folder).sort("row").collect("polars").to_native()
    assert read.select(rows.columns).equals(rows)
    ids = {"user": "user_id", "query": "query_id", "click": "url_id"}
    coded, dictionaries = engine.encode(engine.scan(folder), ids, unordered=("user", "query"))
    table = coded.sort("row").collect("polars")
    for (name, key), dictionary in zip(ids.items(), dictionaries, strict=True):
        texts = dict(dictionary.select(key, name).collect("polars").rows())
        assert [texts.get(result) for result in table[key].to_list()] == rows[name].to_list()
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


SCHEMA = pl.Schema({"text": pl.String(), "count": pl.Int64()})


def test_a_window_sees_the_rows_of_a_user_by_time_and_row(tmp_path: Path) -> None:
    engine = DuckdbEngine(tmp_path / "work")
    rows = pl.DataFrame({"user_id": [1, 1, 2, 1], "time": [5, 4, 1, 5], "row": [9, 2, 1, 3]})
    frame = engine.sort_rows(scan_rows(engine, tmp_path / "rows", rows), "ordered")
    shifted = frame.with_columns(before=engine.ordered(nw.col("row").shift(1))).lazy()
    table = shifted.select("row", "before").sort("row").collect("polars").rows()
    engine.close()
    assert table == [(1, None), (2, None), (3, 2), (9, 3)]


def _lazy(**columns: Sequence[object]) -> nw.LazyFrame[pl.LazyFrame]:
    return nw.from_native(pl.DataFrame(columns).lazy())


def test_rows_are_written_sorted_and_in_the_types_of_the_schema(
    engine: Engine, tmp_path: Path
) -> None:
    rows = pl.DataFrame({"count": [1, 2, 2], "text": ["c", "b", "a"], "more": [0, 0, 0]})
    file = tmp_path / "new" / "table.parquet"
    frame = scan_rows(engine, tmp_path / "rows", rows)
    assert engine.write(frame, file, SCHEMA, ["-count", "text"]) == 3
    result = pl.read_parquet(file)
    assert result.rows() == [("a", 2), ("b", 2), ("c", 1)]
    assert result.schema == {"text": pl.String, "count": pl.Int64}


def test_a_function_sees_every_row_once_in_order() -> None:
    rows = 70_000
    frame = _lazy(number=list(range(rows)))
    result = PolarsEngine().apply(frame, lambda batch: batch * 2, SCHEMA, "doubled")
    assert result.collect().to_native()["number"].to_list() == list(range(0, 2 * rows, 2))


def _cuts(rows: nw.LazyFrame[pl.LazyFrame]) -> tuple[list[list[int]], pl.DataFrame]:
    """The users of each part that a function is given, and what it makes of all of them."""
    seen: list[list[int]] = []

    def counts(part: Rows) -> tuple[Frame, ...]:
        seen.append(part.to_native()["user_id"].unique(maintain_order=True).to_list())
        return (part.lazy().with_columns(rows=nw.len()),)

    engine = PolarsEngine()
    (result,) = engine.by_users(engine.sort_rows(rows, "sorted"), counts, ["counted"])
    return seen, result.collect().to_native()


def test_rows_are_cut_between_users_only(monkeypatch: pytest.MonkeyPatch) -> None:
    users = [3, 1, 1, 2, 2, 2, 2, 2, 4]
    frame = _lazy(user_id=users, time=[0] * 9, row=list(range(9)))
    assert _cuts(frame)[0] == [[1, 2, 3, 4]]
    monkeypatch.setattr(polars, "_PART_ROWS", 3)
    seen, result = _cuts(frame)
    assert seen == [[1, 2], [3, 4]], "the second user's rows stay together"
    assert result["row"].to_list() == [1, 2, 3, 4, 5, 6, 7, 0, 8]
    assert result["rows"].to_list() == [7] * 7 + [2] * 2


@pytest.mark.parametrize("users", [[1, 1, 2, 2, 2, 3], [3, 1, 2, 1, 2, 2]])
def test_counts_of_parts_add_up(users: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows do not lie by user: then there are no parts."""
    frame = _lazy(user_id=users, word_id=[7, 7, 7, 8, 8, 7])
    monkeypatch.setattr(polars, "_PART_ROWS", 2)
    result = PolarsEngine().count_with_users(frame, ["word_id"]).collect().to_native()
    rows = list(zip(users, [7, 7, 7, 8, 8, 7], strict=True))
    right = {key: len({user for user, other in rows if other == key}) for key in (7, 8)}
    assert dict(result.select("word_id", "users").iter_rows()) == right
    assert dict(result.select("word_id", "count").iter_rows()) == {7: 4, 8: 2}


def test_texts_are_looked_up_as_rows_are_written(engine: Engine, tmp_path: Path) -> None:
    rows = pl.DataFrame({"key": [0, None, 1], "count": [3, 2, 1]})
    texts = pl.DataFrame({"key": [0, 1], "text": ["zero", "one"]})
    frame = scan_rows(engine, tmp_path / "rows", rows)
    table = scan_rows(engine, tmp_path / "texts", texts)
    assert engine.write(frame, tmp_path / "table.parquet", SCHEMA, ["count"], {"key": table}) == 3
    written = pl.read_parquet(tmp_path / "table.parquet").rows()
    assert written == [("one", 1), (None, 2), ("zero", 3)]


_NUMBERS = st.integers(-3, 3)
_ROWS = st.lists(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS), min_size=1, max_size=30)


def _rows_of_ids(rows: list[tuple[int, int, int]]) -> pl.DataFrame:
    schema = {"query_id": pl.Int32, "next_id": pl.Int32, "user_id": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("row")


@settings(max_examples=100, deadline=None)
@given(_ROWS)
def test_packed_counts_are_those_of_the_columns(rows: list[tuple[int, int, int]]) -> None:
    keys = ["query_id", "next_id"]
    expected = (
        _rows_of_ids(rows)
        .group_by(keys)
        .agg(count=pl.len().cast(pl.Int64), users=pl.col("user_id").n_unique().cast(pl.Int64))
        .sort(keys)
    )
    result = count_packed(_rows_of_ids(rows), keys, "user_id")
    assert result is not None
    assert result.select(expected.columns).equals(expected)
    assert result.schema["query_id"] == pl.Int32


@pytest.mark.parametrize(
    "column", [[0, 2**62], ["a", "b"], [None, 1], []], ids=["wide", "text", "null", "empty"]
)
def test_columns_that_cannot_be_packed_are_not_counted(column: list[object]) -> None:
    frame = pl.DataFrame({"query_id": column, "user_id": pl.Series([0, 2][: len(column)])})
    assert count_packed(frame, ["query_id"], "user_id") is None


def test_63_bits_are_used_and_no_more() -> None:
    frame = pl.DataFrame({"query_id": [0, 2**62 - 1], "user_id": [0, 1]})
    counts = count_packed(frame, ["query_id"], "user_id")
    assert counts is not None
    assert counts.rows() == [(1, 1, 0), (1, 1, 2**62 - 1)]


TEXT = b"".join(b"%d\tred shoes\t2006-03-01 07:17:12\n" % number for number in range(50_000))


def test_the_size_of_a_packed_file_is_about_that_of_its_text(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(TEXT)
    (tmp_path / "packed").write_bytes(gzip.compress(TEXT))
    assert unpacked_size(tmp_path / "plain") == len(TEXT)
    assert unpacked_size(tmp_path / "packed") == pytest.approx(len(TEXT), rel=0.1)


def test_polars_while_the_tables_fit_and_duckdb_beyond(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(TEXT)
    large = choose_engine([tmp_path / "log"], free=8 << 30)
    assert large.name == "polars"
    assert large.reason.startswith("the log has about 2 MB, for which Polars needs about 0.4 GB")
    assert choose_engine([tmp_path / "log"], free=256 << 20).name == "duckdb"


VERSION_1 = {
    "memory/job/1/memory.limit_in_bytes": "9223372036854771712",
    "memory/job/memory.limit_in_bytes": str(600 << 20),
    "memory/job/memory.usage_in_bytes": str(500 << 20),
    "memory/job/memory.stat": f"cache 7\ninactive_file 7\ntotal_inactive_file {300 << 20}\n",
}
VERSION_2 = {
    "job/1/memory.max": "max",
    "job/memory.max": str(600 << 20),
    "job/memory.current": str(500 << 20),
    "job/memory.stat": f"anon 7\ninactive_file {300 << 20}\n",
}
CONTAINER = {name.removeprefix("job/"): text for name, text in VERSION_2.items()}


@pytest.mark.parametrize(
    ("own_groups", "files"),
    [
        ("9:cpu,memory:/job/1\n1:name=systemd:/\n0::/\n", VERSION_1),
        ("0::/job/1\n", VERSION_2),
        ("0::/somewhere/else\n", CONTAINER),
    ],
)
def test_the_limit_of_a_control_group_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_groups: str, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").write_text(own_groups)
    monkeypatch.setattr(base, "_CGROUPS", tmp_path)
    monkeypatch.setattr(base, "_OWN_CGROUPS", tmp_path / "own")
    assert allowed_memory() == 600 << 20
    assert free_memory() == 400 << 20
    assert relational._memory_limit() == 300


def test_without_a_limit_it_is_the_machine_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_OWN_CGROUPS", tmp_path / "none")
    assert allowed_memory() >= free_memory()
    assert 64 <= relational._memory_limit() <= 2048


pytest.importorskip("pyspark")


def test_without_java_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingDependencyError, match="needs Java 17 or newer: install a JRE"):
        open_engine("spark", tmp_path)


class _Builder:
    """Takes Ctrl-C as Spark does: where it is started from the main thread."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def getOrCreate(self) -> str:  # noqa: N802
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._error:
            raise self._error
        return "a session"


def test_spark_does_not_get_ctrl_c() -> None:
    from nextquery.logs.engines.spark import _started

    before = signal.getsignal(signal.SIGINT)
    try:
        assert cast(Any, _started)(_Builder()) == "a session"
        with pytest.raises(RuntimeError, match="no Java"):
            cast(Any, _started)(_Builder(RuntimeError("no Java")))
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)

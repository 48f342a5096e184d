"""A prepared folder is read back session by session, however its files are cut."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.artifacts import files, write_manifest
from nextquery.errors import ArtifactError
from nextquery.logs import data_folder
from nextquery.records import Session

SESSIONS = [("a", ("one", "two", "three")), ("b", ("four", "five")), ("c", ("six",) * 4)]


@pytest.mark.parametrize("rows", [1, 2, 4, 1000])
def test_sessions_do_not_depend_on_how_many_rows_are_read(
    prepared: Any, tiny_log: Any, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(data_folder, "_ROWS_AT_A_TIME", rows)
    data = prepared(tiny_log(SESSIONS))
    expected = [Session(n, user, queries) for n, (user, queries) in enumerate(SESSIONS)]
    assert list(data.sessions("background")) == expected


HARMED = {
    "a time beyond all calendars": pl.lit(2**62).cast(pl.Datetime("us")).alias("time"),
    "a text in the place of numbers": pl.lit("x").alias("session"),
    "nothing": pl.lit(None, pl.String).alias("query"),
}


@pytest.mark.parametrize("harm", HARMED)
def test_tables_that_do_not_fit_are_refused_even_with_a_manifest_that_does(
    prepared: Any, tiny_log: Any, tmp_path: Path, harm: str
) -> None:
    folder = shutil.copytree(prepared(tiny_log(SESSIONS)).path, tmp_path / "data")
    file = folder / "sessions" / "background" / "part-00000.parquet"
    pl.read_parquet(file).with_columns(HARMED[harm]).write_parquet(file)
    write_manifest(folder, "data", json.loads((folder / "manifest.json").read_text()))
    with pytest.raises(ArtifactError, match=r"background/part-00000\.parquet has a"):
        data_folder.PreparedData(folder)


def test_a_folder_that_never_stays_is_refused(
    prepared: Any, tiny_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        shutil.copytree(prepared(tiny_log(SESSIONS)).path, tmp_path / name)

    def replace(data: data_folder.PreparedData) -> None:
        files.exchange(tmp_path / "one", tmp_path / "other")
        raise OSError

    with pytest.raises(ArtifactError, match="again and again"):
        data_folder.read_data(tmp_path / "one", replace)


def test_an_error_that_is_not_from_a_replacement_is_raised(prepared: Any, tiny_log: Any) -> None:
    def fail(data: data_folder.PreparedData) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        data_folder.read_data(prepared(tiny_log(SESSIONS)).path, fail)

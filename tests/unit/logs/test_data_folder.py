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
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
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


SEARCHES = [
    *[(f"s{n}", ("red shoes",)) for n in range(2)],
    *[(f"t{n}", ("red shoes", "blue hats")) for n in range(2)],
]


def test_single_searches_count_unless_only_sessions_are_asked_for(tmp_path: Path) -> None:
    lines = [
        f"{user}\t{query}\t2006-03-01 10:0{minute}:00\t\t\n"
        for user, queries in SEARCHES
        for minute, query in enumerate(queries)
    ]
    log = tmp_path / "log.tsv"
    log.write_text("AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n" + "".join(lines))
    cuts = "2006-04-01,2006-05-01,2006-06-01"
    prepare([log], tmp_path / "data", PrepareSettings(min_users=3, split_at=cuts))
    data = data_folder.PreparedData(tmp_path / "data")

    assert data.counts("queries").select("query", "count", "users").collect().rows() == [
        ("red shoes", 4, 4)
    ]
    assert data.counts_single_searches
    assert len(data.search_rows("background").collect()) == 6
    assert len(data.session_rows("background").collect()) == 4
    assert data.artifact.entry("counts")["searches"]["background"] == 6
    assert data.words() == ["red", "shoes"]

    paper = data.within_sessions()
    assert paper.counts("queries").collect().is_empty(), "two users typed it in a session"
    assert paper.counts("words").collect().is_empty()
    assert len(paper.search_rows("background").collect()) == 4


def test_a_folder_of_an_earlier_version_counts_what_it_has(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS))
    assert not data.counts_single_searches
    assert (
        data.within_sessions().counts("queries").collect().equals(data.counts("queries").collect())
    )
    assert len(data.search_rows("background").collect()) == 9


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
    with pytest.raises(ArtifactError, match=r"background/part-00000\.parquet(: column| has a)"):
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

"""The pipeline as Python functions: settings by name, tables in memory, paths or opened folders."""

from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import nextquery
from nextquery.errors import ConfigError, InputError
from nextquery.logs.settings import ReadSettings

ROWS = {
    "who": [f"u{n}" for n in range(4) for _ in range(3)],
    "when": [f"2024-01-0{n + 1} 10:0{m}:00" for n in range(4) for m in range(3)],
    "text": ["shoes", "red shoes", "boots"] * 4,
}
COLUMNS = {"user": "who", "time": "when", "query": "text"}


@pytest.fixture
def data(tmp_path: Path) -> nextquery.PreparedData:
    file = tmp_path / "log.csv"
    pl.DataFrame(ROWS).write_csv(file)
    return nextquery.prepare(file, tmp_path / "data", columns=COLUMNS, spelling=False, min_users=1)


def queries(data: nextquery.PreparedData) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.user, tuple(item.queries)) for item in data.sessions("background")]


def test_tables_in_memory_are_prepared_as_files_are(
    data: nextquery.PreparedData, tmp_path: Path
) -> None:
    for name, table in {"pandas": pd.DataFrame(ROWS), "polars": pl.DataFrame(ROWS)}.items():
        same = nextquery.prepare(
            table, tmp_path / name, columns=COLUMNS, spelling=False, min_users=1
        )
        assert same.words() == data.words()
        assert queries(same) == queries(data)


def test_a_setting_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="prepare has no setting 'spellling'"):
        nextquery.prepare("log.tsv", tmp_path / "data", spellling=False)


def test_how_to_read_may_be_given_as_one_setting(tmp_path: Path) -> None:
    pl.DataFrame(ROWS).write_csv(tmp_path / "log.csv")
    read = ReadSettings(columns=COLUMNS, max_rejected=0.2)
    data = nextquery.prepare(
        tmp_path / "log.csv", tmp_path / "data", read=read, format="csv", min_users=1
    )
    result = data.artifact.entry("settings")
    assert (result["columns"], result["format"], result["max_rejected"]) == (COLUMNS, "csv", 0.2)
    with pytest.raises(InputError, match="`read`: must be a ReadSettings, not dict"):
        nextquery.prepare("log.csv", tmp_path / "data", read={"format": "csv"})


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a log is a file, files or a table, not int"):
        nextquery.prepare(7, tmp_path / "data")


def test_a_model_is_fitted_from_a_folder_or_its_path_and_saved_where_asked(
    data: nextquery.PreparedData, tmp_path: Path
) -> None:
    model = nextquery.fit(str(data.path), "adjacency", tmp_path / "model")
    again = nextquery.load(tmp_path / "model")
    texts = [item.text for item in model.suggest(["shoes"], 3)]
    assert texts[0] == "red shoes"
    assert [item.text for item in again.suggest(["shoes"], 3)] == texts
    with pytest.raises(ConfigError, match="detph"):
        nextquery.fit(data, "qvmm", detph=3)
    with pytest.raises(InputError, match="nonsense"):
        nextquery.fit(data, "nonsense")

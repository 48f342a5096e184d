"""`nextquery prepare` on the command line: options to settings, and what is printed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.logs.synthetic.log import write_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    write_log(path, 200, 1)
    return path


def _run(log: Path, out: Path, *options: str) -> str:
    arguments = ["prepare", str(log), "--out", str(out), *options]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_options_become_the_settings_of_the_manifest(log: Path, tmp_path: Path) -> None:
    options = ["--idle-minutes", "20", "--min-users", "2", "--no-spelling", "--max-rejected", "0.2"]
    found = json.loads(_run(log, tmp_path / "data", *options, "--json"))["settings"]
    assert (found["idle_minutes"], found["min_users"], found["spelling"]) == (20, 2, False)
    assert (found["max_rejected"], found["engine"]) == (0.2, "polars")


def test_columns_are_pairs_of_field_and_name(log: Path, tmp_path: Path) -> None:
    columns = "user=AnonID, time=QueryTime,query=Query,"
    said = _run(log, tmp_path / "data", "--columns", columns)
    assert "read as tsv: its first line has tabs and the columns were given" in said


def test_the_summary_says_what_was_read_and_where_it_is(log: Path, tmp_path: Path) -> None:
    *_, last = _run(log, tmp_path / "data").splitlines()
    assert last == f"written to {tmp_path / 'data'}"


def test_a_column_without_a_name_is_refused(log: Path, tmp_path: Path) -> None:
    arguments = ["prepare", str(log), "--out", str(tmp_path / "data"), "--columns", "user"]
    with pytest.raises(InputError, match="`columns` lacks user, time, query"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_the_engine_is_chosen_and_the_choice_explained(log: Path, tmp_path: Path) -> None:
    said = _run(log, tmp_path / "data", "--engine", "auto")
    assert "engine polars: the log has about" in said
    settings = json.loads((tmp_path / "data" / "manifest.json").read_text())["settings"]
    assert settings["engine"] == "polars"
    assert "Polars needs about" in settings["engine_reason"]


def test_a_folder_of_days_is_one_log(log: Path, tmp_path: Path) -> None:
    header, *rows = log.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "days").mkdir()
    for number, part in enumerate((rows[:300], rows[300:])):
        (tmp_path / "days" / f"{number}.tsv").write_text(header + "".join(part), encoding="utf-8")
    whole = json.loads(_run(log, tmp_path / "one", "--json"))["counts"]
    days = json.loads(_run(tmp_path / "days", tmp_path / "two", "--json"))["counts"]
    assert days == whole

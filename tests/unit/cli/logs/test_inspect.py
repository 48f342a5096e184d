"""`nextquery inspect` on the command line."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from nextquery.artifacts import files
from nextquery.cli.main import app
from nextquery.errors import ArtifactError, InputError
from nextquery.logs import inspect
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    write_log(folder / "log.tsv", 200, 1)
    prepare([folder / "log.tsv"], folder / "data", PrepareSettings(min_users=1, spelling=False))
    return folder / "data"


def test_the_table_has_a_line_for_every_split(data: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", str(data)], catch_exceptions=False)
    starts = {line.split(" ")[0] for line in result.stdout.splitlines()}
    assert {"background", "training", "validation", "test", "rows", "users"} <= starts


def test_json_is_one_document(data: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", str(data), "--json"], catch_exceptions=False)
    document = json.loads(result.stdout)
    assert document["counts"]["rows_rejected"] == 0
    assert len(document["frequent_queries"]) == 10


def test_a_folder_replaced_while_it_is_read_is_read_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PrepareSettings(min_users=1, spelling=False)
    for name, sessions in (("one", 200), ("other", 300)):
        write_log(tmp_path / f"{name}.tsv", sessions, 1)
        prepare([tmp_path / f"{name}.tsv"], tmp_path / name, settings)
    show = ["inspect", str(tmp_path / "other"), "--json"]
    expected = CliRunner().invoke(app, show, catch_exceptions=False).stdout
    read = inspect._repetition
    replaced: list[bool] = []

    def replace(found: PreparedData, later: list[str]) -> inspect.Repetition:
        if not replaced:
            replaced.append(files.exchange(tmp_path / "one", tmp_path / "other"))
        return read(found, later)

    monkeypatch.setattr(inspect, "_repetition", replace)
    show = ["inspect", str(tmp_path / "one"), "--json"]
    assert CliRunner().invoke(app, show, catch_exceptions=False).stdout == expected
    assert replaced == [True]


def test_what_is_no_data_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such folder"):
        CliRunner().invoke(app, ["inspect", str(tmp_path / "none")], catch_exceptions=False)


def test_drift_is_shown_in_words_and_as_json(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 400, 1)
    rows = pl.read_csv(tmp_path / "log.tsv", separator="\t", quote_char=None)
    early = rows.filter(rows["QueryTime"] < "2006-05-01")
    early.write_csv(tmp_path / "old.tsv", separator="\t", quote_style="never")
    settings = PrepareSettings(spelling=False, min_users=2)
    for name in ("old", "log"):
        prepare([tmp_path / f"{name}.tsv"], tmp_path / name, settings)
    fit_model(Popularity, PreparedData(tmp_path / "old")).save(tmp_path / "model")
    command = ["inspect", str(tmp_path / "log"), "--against", str(tmp_path / "old")]
    told = CliRunner().invoke(app, [*command, "--model", str(tmp_path / "model")])
    assert told.exit_code == 0, told.output
    assert "unknown to the earlier log" in told.stdout
    assert "(popularity): perplexity" in told.stdout
    assert "retrain: " in told.stdout
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert found["new_sessions"] > 50
    assert found["fit"] is None
    alone = ["inspect", str(tmp_path / "log"), "--model", str(tmp_path / "model")]
    with pytest.raises(InputError, match="--against"):
        CliRunner().invoke(app, alone, catch_exceptions=False)

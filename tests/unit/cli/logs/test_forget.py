import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.popularity import Popularity


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_log(tmp_path / "log.tsv", 200, 1)
    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False))
    return tmp_path / "data"


def test_a_model_that_is_behind_is_named(data: Path, tmp_path: Path) -> None:
    fit_model(Popularity, PreparedData(data)).save(tmp_path / "model")
    (session, *_) = PreparedData(data).sessions("background")
    command = ["forget", str(data), "--user", session.user, "--pseudonyms"]
    shown = CliRunner().invoke(app, [*command, "--model", str(tmp_path / "model")])
    assert "1 of 1 users had rows" in shown.stdout
    assert "made before 1 users were forgotten; make it again" in shown.stdout
    again = CliRunner().invoke(app, [*command, "--model", str(tmp_path / "model"), "--json"])
    assert json.loads(again.stdout)["models_forgotten_since"] == {str(tmp_path / "model"): 1}


def test_an_approximate_removal_is_called_so(data: Path, tmp_path: Path) -> None:
    """A model that went on from one that knew somebody: its manifest says of how many."""
    model = fit_model(Popularity, PreparedData(data))
    notes = [{"date": "2026-11-16", "users": 2}, {"date": "2026-11-17", "users": 3}]
    model.data_entry = {**(model.data_entry or {}), "forgotten": notes, "approximately": 1}
    model.save(tmp_path / "model")
    command = ["forget", str(data), "--user", "nobody", "--model", str(tmp_path / "model")]
    assert "the removal of 3 users is approximate" in CliRunner().invoke(app, command).stdout


def test_a_file_that_cannot_be_read_is_named(data: Path, tmp_path: Path) -> None:
    arguments = ["forget", str(data), "--users-file", str(tmp_path / "none")]
    with pytest.raises(InputError, match="`users_file`"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)

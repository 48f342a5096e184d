"""`nextquery inspect` on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import ArtifactError
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log


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
    facts = json.loads(result.stdout)
    assert facts["counts"]["rows_rejected"] == 0
    assert len(facts["frequent_queries"]) == 10


def test_what_is_no_data_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such folder"):
        CliRunner().invoke(app, ["inspect", str(tmp_path / "none")], catch_exceptions=False)

"""`nextquery study`: options that contradict each other, and a first look at a made study."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nextquery import prepare
from nextquery.cli.main import app
from nextquery.logs.synthetic.log import write_log

TOPICS = "red shoes\nboots\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["study", *(str(each) for each in arguments)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "only-a-folder"], "`model` only-a-folder: write NAME=FOLDER"),
        (["--model", "a=x", "--model", "a=y"], "the name 'a' is taken"),
        (
            ["--model", "a=x", "--model", "b=y", "--max-contexts", "2"],
            "--max-contexts needs --topics",
        ),
    ],
)
def test_options_that_make_no_study(tmp_path: Path, options: list[str], said: str) -> None:
    failed = run("create", "--data", tmp_path, "--out", tmp_path / "study", *options)
    assert failed.exit_code != 0
    assert said in str(failed.exception)


def test_a_study_is_made_and_looked_at(served_models: dict[str, Path], tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", sessions=300, seed=1)
    data = prepare(tmp_path / "log.tsv", tmp_path / "data", spelling=False)
    topics = tmp_path / "topics.txt"
    topics.write_text(TOPICS)
    models = [f"ADJ={served_models['adjacency']}", f"POP={served_models['popularity']}"]
    done = run(
        *("create", "--data", data.path, "--topics", topics, "--out", tmp_path / "study"),
        *("--model", models[0], "--model", models[1], "--places", "3", "--json"),
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["topics"] == 2
    look = json.loads(run("first-pass", tmp_path / "study", "--json").stdout)
    assert {model["model"] for model in look["models"]} == {"ADJ", "POP"}
    assert look["topics"] == 2

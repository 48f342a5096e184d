"""`nextquery study` on the command line, with real models."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nextquery.artifacts import write_manifest
from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.study.pool import USEFUL, JudgementStore, read_pool

SESSIONS = [
    ("ann", ["paris", "paris hotels"]),
    ("bob", ["paris", "rome"]),
    ("eve", ["rome", "oslo"]),
]


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(word) for word in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def data(prepared: Any, tiny_log: Any) -> Path:
    folder: Path = prepared(tiny_log(SESSIONS)).path
    shutil.copytree(folder / "sessions" / "background", folder / "sessions" / "test")
    manifest = json.loads((folder / "manifest.json").read_text())
    sessions = manifest["counts"]["sessions"]
    counts = {**manifest["counts"], "sessions": {**sessions, "test": sessions["background"]}}
    write_manifest(folder, "data", {"settings": manifest["settings"], "counts": counts})
    return folder


@pytest.fixture(scope="module")
def models(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    options = []
    for name, kind in (("ADJ", "adjacency"), ("POP", "popularity")):
        run("fit", data, "--kind", kind, "--out", folder / kind)
        options += ["--model", f"{name}={folder / kind}"]
    return options


def test_from_a_file_of_topics_to_a_report(data: Path, models: list[str], tmp_path: Path) -> None:
    topics = tmp_path / "topics.txt"
    topics.write_text("Paris\nrome\n")
    study = tmp_path / "study"
    made = json.loads(
        run(
            "study", "create", "--data", data, "--topics", topics, *models, "--out", study, "--json"
        )
    )
    assert made["topics"] == 2
    assert made["items"] > 2
    store = JudgementStore(study)
    for topic in read_pool(study).topics:
        for item in topic.items:
            store.judge(1, item.id, USEFUL)
    report = json.loads(run("study", "report", study, "--json"))
    assert {model["model"] for model in report["groups"]["all"]["models"]} == {"ADJ", "POP"}
    assert (tmp_path / "study-report" / "index.html").is_file()


@pytest.mark.parametrize(
    ("model", "problem"),
    [(["--model", "ADJ"], "NAME=FOLDER"), (["--model", "A=x", "--model", "A=y"], "is taken")],
)
def test_a_wrong_model_is_named(data: Path, tmp_path: Path, model: list[str], problem: str) -> None:
    words = ["study", "create", "--data", str(data), *model, "--out", str(tmp_path / "study")]
    with pytest.raises(InputError, match=problem):
        CliRunner().invoke(app, words, catch_exceptions=False)

"""`nextquery study` on the command line, with real models."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import run_command as run

from nextquery.artifacts import write_manifest
from nextquery.errors import InputError
from nextquery.study.pool import USEFUL, JudgementStore, read_pool

SESSIONS = [
    ("ann", ["paris", "paris hotels"]),
    ("bob", ["paris", "rome"]),
    ("eve", ["rome", "oslo"]),
]


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
    with pytest.raises(InputError, match=problem):
        run("study", "create", "--data", data, *model, "--out", tmp_path / "study")

"""`nextquery why` in words and as JSON, for one model and for several."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import count_model


@pytest.fixture(scope="module")
def models(prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = prepared(
        tiny_log([(f"u{n}", ["red shoes", "red boots"]) for n in range(4)], [], min_users=3)
    )
    folder = tmp_path_factory.mktemp("models")
    for kind in ("popularity", "adjacency"):
        fit_model(count_model(kind), data).save(folder / kind)
    return folder


def test_several_models_as_json(models: Path) -> None:
    command = ["why", str(models / "popularity"), "red boots", "--context", "red shoes", "--json"]
    command += ["--compare", f"adj={models / 'adjacency'}"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    found = json.loads(result.stdout)
    assert list(found) == ["model", "adj"]
    assert found["adj"]["model"] == "adjacency"
    assert found["adj"]["rank"] == 1
    assert found["model"]["count"] == 4


def test_in_words(models: Path) -> None:
    command = ["why", str(models / "popularity"), "red zebra"]
    shown = CliRunner().invoke(app, command, catch_exceptions=False).stdout
    assert "cannot be suggested: refused by the guard: a word of fewer than K users" in shown
    assert "users who typed it: fewer than 3\n" in shown
    assert "words of fewer than 3 users: zebra" in shown


def test_in_words_where_every_user_counts(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log([("one", ["red shoes", "red boots"])], [], min_users=1))
    fit_model(count_model("popularity"), data).save(tmp_path / "m")
    runner = CliRunner()
    shown = runner.invoke(app, ["why", str(tmp_path / "m"), "red zebra"]).stdout
    assert "users who typed it: none\n" in shown
    assert "words that nobody typed: zebra" in shown
    assert "1 user" not in shown
    shown = runner.invoke(app, ["why", str(tmp_path / "m"), "red boots"]).stdout
    assert "users who typed it: at least 1, 1 time\n" in shown


@pytest.mark.parametrize("compare", ["adj", "=x", "adj=", "model=x"])
def test_a_model_to_compare_needs_a_name(models: Path, compare: str) -> None:
    command = ["why", str(models / "popularity"), "red", "--compare", compare]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, InputError)

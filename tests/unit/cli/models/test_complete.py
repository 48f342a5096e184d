"""`nextquery complete`: known queries by their beginning, from any model."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery import load
from nextquery.cli.main import app


@pytest.mark.parametrize("kind", ["adjacency", "popularity", "hred"])
def test_every_model_completes(served_models: dict[str, Path], kind: str) -> None:
    frequent = load(served_models["popularity"]).suggest([], 1)[0].text
    asked = ["--prefix", frequent[:2], "-n", "3", "--json"]
    arguments = ["complete", str(served_models[kind]), *asked]
    document = json.loads(CliRunner().invoke(app, arguments).stdout)
    texts = [each["text"] for each in document["completions"]]
    assert document["prefix"] == frequent[:2]
    assert 1 <= len(texts) <= 3
    assert all(text.startswith(frequent[:2]) for text in texts)


def test_a_beginning_that_nobody_typed_gives_nothing(served_models: dict[str, Path]) -> None:
    done = CliRunner().invoke(app, ["complete", str(served_models["adjacency"]), "--prefix", "qqq"])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no completion\n")


def test_what_orders_suggestions_is_refused(served_models: dict[str, Path]) -> None:
    arguments = ["complete", str(served_models["hred"]), "--set", "specificity=0.5"]
    failed = CliRunner().invoke(app, arguments)
    assert "--set specificity: orders suggestions, not completions" in str(failed.exception)

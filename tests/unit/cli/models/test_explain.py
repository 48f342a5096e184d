"""`nextquery explain`: the weights of a session's queries, and models that have none."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery import load
from nextquery.cli.main import app


def test_every_query_has_its_share(served_models: dict[str, Path], tmp_path: Path) -> None:
    queries = [each.text for each in load(served_models["popularity"]).suggest([], 3)]
    figure = tmp_path / "gates.svg"
    arguments = ["explain", str(served_models["hred"]), *queries, "--figure", str(figure), "--json"]
    done = CliRunner().invoke(app, arguments)
    found = json.loads(done.stdout)["queries"]
    assert [each["query"] for each in found] == queries
    # What is left of 1 belongs to the state before the first query.
    assert 0 < sum(each["share"] for each in found) <= 1
    assert found[-1]["share"] == pytest.approx(found[-1]["update"])
    assert figure.read_text("utf-8").lstrip().startswith("<?xml")


def test_a_count_model_has_no_gates(served_models: dict[str, Path]) -> None:
    failed = CliRunner().invoke(app, ["explain", str(served_models["adjacency"]), "a"])
    assert "a model of kind 'adjacency' has no gates" in str(failed.exception)


def test_a_figure_of_another_kind_is_refused(served_models: dict[str, Path]) -> None:
    arguments = ["explain", str(served_models["hred"]), "a", "--figure", "gates.gif"]
    failed = CliRunner().invoke(app, arguments)
    assert "--figure gates.gif: must end in .png, .svg or .pdf" in str(failed.exception)

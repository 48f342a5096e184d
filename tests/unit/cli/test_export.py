"""`nextquery export`: a folder, a line for people or a document for programs."""

import json
from pathlib import Path

from typer.testing import CliRunner

from nextquery.cli.main import app


def test_suggestions_are_written(served_models: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["export", str(served_models["adjacency"]), "--to", "json", "--out", str(out)]
    done = CliRunner().invoke(app, [*arguments, "--queries", "3", "--next-queries", "2", "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["out"], facts["target"], facts["queries"]) == (str(out), "json", 3)
    assert facts["next_queries"] <= 6
    assert (out / "manifest.json").is_file()


def test_an_engine_that_is_none_is_answered_with_the_list(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    arguments = ["export", str(served_models["adjacency"]), "--to", "solar", "--out"]
    failed = CliRunner().invoke(app, [*arguments, str(tmp_path / "out")])
    assert failed.exit_code != 0
    assert "typesense" in str(failed.exception)
    assert not (tmp_path / "out").exists()

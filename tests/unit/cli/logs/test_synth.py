"""`nextquery synth` on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError


def test_json_says_what_was_written(tmp_path: Path) -> None:
    out = tmp_path / "new folder" / "log.tsv"
    arguments = ["synth", str(out), "--sessions", "100", "--seed", "5", "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    found = json.loads(result.stdout)
    lines = out.read_text(encoding="utf-8").splitlines()
    assert found["rows"] == len(lines) - 1
    assert found["users"] == len({line.split("\t")[0] for line in lines[1:]})
    assert found["first"] <= lines[1].split("\t")[2] <= found["last"]
    assert found["shuffled"] is False


def test_the_summary_is_one_line(tmp_path: Path) -> None:
    arguments = ["synth", str(tmp_path / "log.tsv.gz"), "--sessions", "1", "--shuffled"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "1 sessions" in result.stdout
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize("bad", [("--sessions", "0"), ("--seed", "-1"), ("--sessions", "many")])
def test_a_bad_number_is_refused_with_exit_code_2(tmp_path: Path, bad: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["synth", str(tmp_path / "log.tsv"), *bad])
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        CliRunner().invoke(app, ["synth", str(tmp_path)], catch_exceptions=False)

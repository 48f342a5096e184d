import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.logs.synthetic.log import write_log


def test_a_log_is_described_and_the_next_commands_are_named(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    write_log(log, sessions=500, seed=1)

    result = CliRunner().invoke(app, ["init", str(log)])

    assert result.exit_code == 0, result.output
    assert "format    aol" in result.output
    assert f"nextquery prepare {log} --out DATA" in result.output
    assert "nextquery fit DATA --kind adjacency" in result.output
    assert list(tmp_path.iterdir()) == [log]


def test_the_commands_that_it_prints_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(Path("log.tsv"), sessions=500, seed=1)
    lines = CliRunner().invoke(app, ["init", "log.tsv"]).stdout.splitlines()
    printed = [shlex.split(line)[1:] for line in lines if line.startswith("  nextquery ")]

    assert [words[0] for words in printed] == ["prepare", "fit", "fit", "train", "suggest"]
    for words in printed:
        if words[0] != "train":  # that takes minutes
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.output


def test_the_same_as_json(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    write_log(log, sessions=500, seed=1)

    found = json.loads(CliRunner().invoke(app, ["init", str(log), "--json"]).stdout)

    assert found["format"] == "aol"
    assert found["counts"]["rows_rejected"] == 0
    assert found["advice"]


def test_what_had_to_be_said_is_part_of_the_next_command(tmp_path: Path) -> None:
    log = tmp_path / "a log.csv"
    rows = [f"u{n % 9},2024-01-{n % 27 + 1:02} 10:0{n % 9}:00,query {n % 5}\n" for n in range(200)]
    log.write_text("who,when,what\n" + "".join(rows))
    columns = "user=who,time=when,query=what"

    result = CliRunner().invoke(app, ["init", str(log), "--columns", columns, "--format", "csv"])

    assert result.exit_code == 0, result.output
    command = f"nextquery prepare '{log}' --columns {columns} --format csv --out DATA"
    assert command in result.output

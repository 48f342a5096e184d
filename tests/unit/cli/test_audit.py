"""`nextquery audit` prints a page, or one JSON document."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

SESSIONS = [
    (f"user{n}-{k}", (f"word{n} word{(n + 1) % 30}", f"word{n} word{(n + 9) % 30}"))
    for n in range(30)
    for k in range(3)
]


@pytest.fixture
def arguments(prepared: Any, tiny_log: Any, tmp_path: Path) -> list[str]:
    data = prepared(tiny_log(SESSIONS, min_users=3))
    fit_model(Adjacency, data).save(tmp_path / "model")
    few = ["--canaries", "1", "--contexts", "1", "--min-users", "3"]
    return ["audit", str(tmp_path / "model"), str(data.path), *few]


def test_it_prints_json(arguments: list[str]) -> None:
    ended = CliRunner().invoke(app, [*arguments, "--json"])
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert {each["kind"] for each in found["poisoning"]} == {"adjacency"}
    assert found["poisoning"][0]["needed"] == 3


def test_it_prints_a_page(arguments: list[str]) -> None:
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 0, ended.output
    assert "1. Does the model give away what few people typed?" in ended.stdout
    assert "No blocklist was given" in ended.stdout

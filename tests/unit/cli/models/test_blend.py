"""`nextquery blend` from the command line, and the blend in the commands that ask models."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.conftest import make_untrained_hred
from typer.testing import CliRunner

from nextquery import fit, prepare
from nextquery.cli.main import app


def printed(*words: str | Path) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.stdout


def blending(place: Path) -> list[str | Path]:
    return ["blend", place / "hred", place / "adjacency", "--data", place / "data"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and models of 120 sessions, one an hour."""
    place = tmp_path_factory.mktemp("blend command")
    sessions = [(n, query) for n in range(120) for query in ("red shoes", f"shoes {n % 3}")]
    times = [
        f"2024-01-{1 + n // 24:02} {n % 24:02}:00:0{i % 2}" for i, (n, _) in enumerate(sessions)
    ]
    table = pl.DataFrame(
        {
            "user": [f"u{n % 9}" for n, _ in sessions],
            "time": times,
            "query": [q for _, q in sessions],
        }
    )
    data = prepare(table, place / "data", spelling=False, min_users=1)
    make_untrained_hred(data, place / "hred")
    fit(data, "adjacency", place / "adjacency")
    words: list[str | Path] = [
        "blend",
        place / "hred",
        place / "adjacency",
        "--data",
        place / "data",
    ]
    assert "has candidates: hred" in printed(*words, "--out", place / "blend", "--set", "cases=9")
    return place


def test_weights_and_settings_are_printed(folder: Path) -> None:
    words: list[str | Path] = [
        "blend",
        folder / "hred",
        folder / "adjacency",
        "--data",
        folder / "data",
    ]
    found = json.loads(printed(*words, "--out", folder / "again", "--json"))
    assert list(found["weights"]) == ["no count model has candidates", "adjacency has candidates"]
    assert found["settings"]["specificity"] == 0.25


def test_every_command_that_asks_a_model_takes_it(folder: Path) -> None:
    blend = folder / "blend"
    context = ["--context", "red shoes"]
    asked = json.loads(printed("suggest", blend, "red shoes", "--json", "--specificity", "0.1"))
    assert asked["model"] == "blend"
    assert asked["suggestions"][0]["text"].startswith("shoes")
    assert asked["suggestions"][0]["log_prior"] < 0
    scored = json.loads(printed("score", blend, *context, "--candidate", "shoes 1", "--json"))
    assert scored
    assert "shoes" in printed("complete", blend, "--prefix", "sh", *context)
    assert json.loads(printed("why", blend, "shoes 1", *context, "--json"))
    assert json.loads(printed("explain", blend, "red shoes", "--json"))
    printed("export", blend, "--out", folder / "export", "--to", "static")
    assert any((folder / "export").iterdir())


def test_a_wrong_order_is_one_line(folder: Path) -> None:
    words = ["blend", folder / "adjacency", folder / "hred", "--data", folder / "data"]
    result = CliRunner().invoke(app, [*map(str, words), "--out", str(folder / "none")])
    assert "adjacency: of kind 'adjacency'; a blend has a trained model first" in str(
        result.exception
    )

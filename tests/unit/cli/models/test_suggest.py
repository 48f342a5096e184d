import json
from pathlib import Path

from typer.testing import CliRunner

from nextquery.cli.main import app


def test_a_count_model_that_has_nothing_shows_related_queries(
    served_models: dict[str, Path],
) -> None:
    words = ["suggest", str(served_models["adjacency"]), "trail boots", "--fallback"]
    shown = CliRunner().invoke(app, words)
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)

    assert "the model has no suggestion for this session; these are" in shown.stderr
    assert "[shares words with the last query; seen in the log" in shown.stdout
    assert told["fallback"] is True
    assert {item["text"] for item in told["suggestions"]} >= {"leather boots", "red boots"}


def test_without_fallback_nothing_is_shown_instead(served_models: dict[str, Path]) -> None:
    words = ["suggest", str(served_models["adjacency"]), "trail boots"]
    shown = CliRunner().invoke(app, words)

    assert shown.exit_code == 0
    assert shown.stdout == ""
    assert "--fallback shows related or frequent queries" in shown.stderr


def test_what_the_model_has_comes_from_the_model(served_models: dict[str, Path]) -> None:
    words = ["suggest", str(served_models["adjacency"]), "red shoes", "--json"]
    told = json.loads(CliRunner().invoke(app, words).stdout)

    assert "fallback" not in told
    assert [item["text"] for item in told["suggestions"]] == ["red boots", "running shoes"]

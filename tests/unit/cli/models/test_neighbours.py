"""`nextquery neighbours`: nearest words and queries, and models without vectors."""

import json
from pathlib import Path

from typer.testing import CliRunner

from nextquery import HRED, load
from nextquery.cli.main import app


def ask(folder: Path, *arguments: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(app, ["neighbours", str(folder), *arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: list[dict[str, object]] = json.loads(done.stdout)["neighbours"]
    return found


def test_the_nearest_come_first(served_models: dict[str, Path]) -> None:
    folder = served_models["hred"]
    word = HRED.from_pretrained(folder).vocabulary.words[3]
    query = load(served_models["popularity"]).suggest([], 1)[0].text
    for arguments in ((word, "--words", "-n", "3"), (query, "-n", "3")):
        found = ask(folder, *arguments)
        cosines = [float(str(each["cosine"])) for each in found]
        assert len(found) == 3
        assert cosines == sorted(cosines, reverse=True)
        assert all(-1.0001 <= cosine <= 1.0001 for cosine in cosines)
        assert arguments[0] not in [each["text"] for each in found]


def test_a_count_model_has_no_vectors(served_models: dict[str, Path]) -> None:
    failed = CliRunner().invoke(app, ["neighbours", str(served_models["adjacency"]), "a"])
    assert "a model of kind 'adjacency' has no vectors" in str(failed.exception)

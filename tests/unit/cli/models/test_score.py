"""`nextquery score`: likelihoods in the given order, as the library gives them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery import load
from nextquery.cli.main import app


def test_candidates_keep_their_order(served_models: dict[str, Path]) -> None:
    folder = served_models["adjacency"]
    known = [each.text for each in load(served_models["popularity"]).suggest([], 2)]
    asked = [word for text in (known[1], "zzz", known[0]) for word in ("--candidate", text)]
    arguments = ["score", str(folder), "--context", known[0], *asked]
    scores = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)["scores"]
    expected = load(folder).score([known[0]], [known[1], "zzz", known[0]])
    assert [each["text"] for each in scores] == [known[1], "zzz", known[0]]
    found = [each["log_likelihood"] for each in scores]
    assert found == pytest.approx([each.log_likelihood for each in expected])
    readable = CliRunner().invoke(app, arguments).stdout.splitlines()
    assert readable[1].endswith("zzz  [unknown words: zzz]")
    assert float(readable[0].split()[0]) == pytest.approx(found[0], abs=0.001)

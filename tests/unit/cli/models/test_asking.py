"""`nextquery complete`, `score`, `neighbours` and `explain`; which options a model takes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nextquery import HRED, load
from nextquery.cli.main import app
from nextquery.cli.suggest import as_written, decode_options
from nextquery.errors import InputError
from nextquery.records import Suggestion


def ask(command: str, folder: Path, *arguments: str) -> Any:
    done = CliRunner().invoke(app, [command, str(folder), *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def frequent(served_models: dict[str, Path]) -> list[str]:
    """The three most frequent queries."""
    return [item.text for item in load(served_models["popularity"]).suggest([], 3)]


@pytest.mark.parametrize("kind", ["adjacency", "popularity", "hred"])
def test_every_model_completes(
    served_models: dict[str, Path], frequent: list[str], kind: str
) -> None:
    prefix = frequent[0][:2]
    document = ask("complete", served_models[kind], "--prefix", prefix, "-n", "3")
    texts = [item["text"] for item in document["completions"]]
    assert document["prefix"] == prefix
    assert 1 <= len(texts) <= 3
    assert all(text.startswith(prefix) for text in texts)


def test_a_prefix_that_nobody_typed_has_no_completion(served_models: dict[str, Path]) -> None:
    done = CliRunner().invoke(app, ["complete", str(served_models["adjacency"]), "--prefix", "qqq"])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no completion\n")


def test_scores_are_in_the_order_of_the_candidates(
    served_models: dict[str, Path], frequent: list[str]
) -> None:
    folder, candidates = served_models["adjacency"], [frequent[1], "zzz", frequent[0]]
    words = ["--context", frequent[0]]
    words += [word for text in candidates for word in ("--candidate", text)]
    scores = ask("score", folder, *words)["scores"]
    expected = load(folder).score([frequent[0]], candidates)
    likelihoods = [item["log_likelihood"] for item in scores]
    assert [item["text"] for item in scores] == candidates
    assert likelihoods == pytest.approx([item.log_likelihood for item in expected])
    readable = CliRunner().invoke(app, ["score", str(folder), *words]).stdout.splitlines()
    assert readable[1].endswith("zzz  [unknown words: zzz]")
    assert float(readable[0].split()[0]) == pytest.approx(likelihoods[0], abs=0.001)


@pytest.mark.parametrize("words", [True, False])
def test_the_nearest_come_first(
    served_models: dict[str, Path], frequent: list[str], words: bool
) -> None:
    folder = served_models["hred"]
    text = HRED.from_pretrained(folder).vocabulary.words[3] if words else frequent[0]
    options = ["--words"] if words else []
    nearest = ask("neighbours", folder, text, *options, "-n", "3")["neighbours"]
    cosines = [item["cosine"] for item in nearest]
    assert len(cosines) == 3
    assert cosines == sorted(cosines, reverse=True)
    assert all(-1.0001 <= cosine <= 1.0001 for cosine in cosines)
    assert text not in [item["text"] for item in nearest]


def test_every_query_has_its_share(
    served_models: dict[str, Path], frequent: list[str], tmp_path: Path
) -> None:
    figure = tmp_path / "gates.svg"
    options = ("--figure", str(figure))
    weights = ask("explain", served_models["hred"], *frequent, *options)["queries"]
    assert [item["query"] for item in weights] == frequent
    # What is left of 1 belongs to the state before the first query.
    assert 0 < sum(item["share"] for item in weights) <= 1
    assert weights[-1]["share"] == pytest.approx(weights[-1]["update"])
    assert figure.stat().st_size > 1000


@pytest.mark.parametrize(
    ("command", "kind", "words", "message"),
    [
        ("neighbours", "adjacency", ["a"], "a model of kind 'adjacency' has no vectors; give a"),
        ("explain", "adjacency", ["a"], "a model of kind 'adjacency' has no gates; give a"),
        ("explain", "hred", ["a", "--figure", "g.gif"], "g.gif: must end in .png, .svg or .pdf"),
        ("complete", "hred", ["--set", "specificity=1"], "orders suggestions, not completions"),
        ("suggest", "adjacency", ["--beam", "4"], "--beam: for HRED only; this model is"),
    ],
)
def test_what_a_model_cannot_do_is_said(
    served_models: dict[str, Path], command: str, kind: str, words: list[str], message: str
) -> None:
    failed = CliRunner().invoke(app, [command, str(served_models[kind]), *words])
    assert isinstance(failed.exception, InputError)
    assert message in str(failed.exception)


def test_a_model_takes_the_options_that_it_can(served_models: dict[str, Path]) -> None:
    network, counts = load(served_models["hred"]), load(served_models["adjacency"])
    assert decode_options(network, {"beam": None}, []) == {}
    config = decode_options(network, {"beam": 4}, ["max_words=7"])["config"]
    assert (config.beam, config.max_words) == (4, 7)
    given = {"diversity": 0.5, "beam": None}
    assert decode_options(counts, given, [], {"diversity"}) == {"diversity": 0.5}


def test_scripts_without_spaces_are_shown_without() -> None:
    assert as_written(Suggestion("日本 語", -1.0, "seen")).text == "日本語"
    assert as_written(Suggestion("two words", -1.0, "seen")).text == "two words"

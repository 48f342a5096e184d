"""Commands that ask a model: suggest, complete, score, neighbours, explain, why."""

import json
import re
from math import log
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import run_cli, run_command

from nextquery import HRED, load
from nextquery.cli.suggest import as_written, decode_options
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.records import Suggestion
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.count_suggester import fall_back
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import count_model


def ask(command: str, folder: Path, *arguments: str) -> Any:
    return json.loads(run_command(command, folder, *arguments, "--json"))


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
    done = run_cli("complete", served_models["adjacency"], "--prefix", "qqq")
    assert (done.stdout, done.stderr) == ("", "no completion\n")


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
    readable = run_command("score", folder, *words).splitlines()
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


def test_a_transformer_answers_every_command(
    served_models: dict[str, Path], frequent: list[str]
) -> None:
    folder = served_models["transformer"]
    shares = [item["share"] for item in ask("explain", folder, *frequent)["queries"]]
    assert len(shares) == len(frequent)
    assert sum(shares) == pytest.approx(1.0, abs=1e-4)
    assert ask("suggest", folder, *frequent, "--beam", "4")["suggestions"]
    assert ask("neighbours", folder, frequent[0], "-n", "2")["neighbours"]


@pytest.mark.parametrize(
    ("command", "kind", "words", "message"),
    [
        ("neighbours", "adjacency", ["a"], "a model of kind 'adjacency' has no vectors; give a"),
        ("explain", "adjacency", ["a"], "a model of kind 'adjacency' cannot explain itself"),
        (
            "explain",
            "transformer",
            ["a", "--figure", "g.png"],
            "has no gates to draw",
        ),
        ("explain", "hred", ["a", "--figure", "g.gif"], "g.gif: must end in .png, .svg or .pdf"),
        ("complete", "hred", ["--set", "specificity=1"], "orders suggestions, not completions"),
        ("suggest", "adjacency", ["--beam", "4"], "--beam: only for a neural model; this one is"),
    ],
)
def test_what_a_model_cannot_do_is_said(
    served_models: dict[str, Path], command: str, kind: str, words: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        run_cli(command, served_models[kind], *words)


def test_a_model_takes_the_options_that_it_can(served_models: dict[str, Path]) -> None:
    network, counts = load(served_models["hred"]), load(served_models["adjacency"])
    assert decode_options(network, {"beam": None}, []) == {}
    config = decode_options(network, {"beam": 4}, ["max_words=7"])["config"]
    assert (config.beam, config.max_words) == (4, 7)
    options = {"diversity": 0.5, "beam": None}
    assert decode_options(counts, options, [], {"diversity"}) == {"diversity": 0.5}


def test_scripts_without_spaces_are_shown_without() -> None:
    assert as_written(Suggestion("日本 語", -1.0, "seen")).text == "日本語"
    assert as_written(Suggestion("two words", -1.0, "seen")).text == "two words"


def test_a_count_model_that_has_nothing_shows_related_queries(
    served_models: dict[str, Path],
) -> None:
    words = "suggest", served_models["adjacency"], "trail boots", "--fallback"
    shown = run_cli(*words)
    message = json.loads(run_command(*words, "--json"))

    assert "the model has no suggestion for this session; these are" in shown.stderr
    assert "[shares words with the last query; seen in the log" in shown.stdout
    assert message["fallback"] is True
    assert {item["text"] for item in message["suggestions"]} >= {"leather boots", "red boots"}


def test_without_fallback_nothing_is_shown_instead(served_models: dict[str, Path]) -> None:
    shown = run_cli("suggest", served_models["adjacency"], "trail boots")
    assert shown.stdout == ""
    assert "--fallback shows related or frequent queries" in shown.stderr


SESSIONS = [
    *[(f"a{n}", ["diabetes type 2", "insulin"]) for n in range(3)],
    *[(f"b{n}", ["diabetes diet", "low sugar recipes"]) for n in range(2)],
    *[(f"c{n}", ["the news", "the weather"]) for n in range(5)],
]


@pytest.fixture
def model(prepared: Any, tiny_log: Any) -> Adjacency:
    return fit_model(Adjacency, prepared(tiny_log(SESSIONS)))


def test_queries_of_the_same_words_come_first(model: Adjacency) -> None:
    assert model.suggest(["diabetes"]) == []
    result = fall_back(model, ["diabetes"], 5)

    assert [item.text for item in result] == ["diabetes type 2", "diabetes diet"]
    assert result[0].source == "shares words with the last query; seen in the log (3 times)"


def test_the_score_is_frequency_times_the_share_of_rare_words(model: Adjacency) -> None:
    best = fall_back(model, ["diabetes"], 1)[0]
    # 3 of 20 queries and one imagined; 5 times "diabetes", 3 times "type" and "2" among 42 words,
    # 20 ends and one unknown word.
    diabetes, rest = log(63 / 5), 2 * log(63 / 3)
    assert best.score == pytest.approx(log(3 / 21) + log(diabetes / (diabetes + rest)))


def test_frequent_queries_where_no_word_is_known(model: Adjacency) -> None:
    result = fall_back(model, ["zyzzyva"], 2)

    assert [item.text for item in result] == ["the news", "the weather"]
    assert result[0].source == "frequent, whatever came before; seen in the log (5 times)"


def test_neither_the_session_nor_what_the_guard_refuses_is_shown(
    model: Adjacency, tmp_path: Path
) -> None:
    (tmp_path / "blocked.txt").write_text("insulin\n")
    model.guard = Guard(blocklist=tmp_path / "blocked.txt")
    shown = {item.text for item in fall_back(model, ["the news", "zyzzyva"], 20)}

    assert "the news" not in shown
    assert "insulin" not in shown
    assert "diabetes diet" in shown


@pytest.fixture(scope="module")
def models(prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = prepared(
        tiny_log([(f"u{n}", ["red shoes", "red boots"]) for n in range(4)], [], min_users=3)
    )
    folder = tmp_path_factory.mktemp("models")
    for kind in ("popularity", "adjacency"):
        fit_model(count_model(kind), data).save(folder / kind)
    return folder


def test_several_models_as_json(models: Path) -> None:
    command = "why", models / "popularity", "red boots", "--context", "red shoes", "--json"
    results = json.loads(run_cli(*command, "--compare", f"adj={models / 'adjacency'}").stdout)
    assert list(results) == ["model", "adj"]
    assert results["adj"]["model"] == "adjacency"
    assert results["adj"]["rank"] == 1
    assert results["model"]["count"] == 4


def test_in_words(models: Path) -> None:
    shown = run_cli("why", models / "popularity", "red zebra").stdout
    assert "cannot be suggested: refused by the guard: a word of fewer than K users" in shown
    assert "users who typed it: fewer than 3\n" in shown
    assert "words of fewer than 3 users: zebra" in shown


def test_in_words_where_every_user_counts(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log([("one", ["red shoes", "red boots"])], [], min_users=1))
    fit_model(count_model("popularity"), data).save(tmp_path / "m")
    shown = run_cli("why", tmp_path / "m", "red zebra").stdout
    assert "users who typed it: none\n" in shown
    assert "words that nobody typed: zebra" in shown
    assert "1 user" not in shown
    shown = run_cli("why", tmp_path / "m", "red boots").stdout
    assert "users who typed it: at least 1, 1 time\n" in shown


@pytest.mark.parametrize("compare", ["adj", "=x", "adj=", "model=x"])
def test_a_model_to_compare_needs_a_name(models: Path, compare: str) -> None:
    with pytest.raises(InputError):
        run_cli("why", models / "popularity", "red", "--compare", compare)

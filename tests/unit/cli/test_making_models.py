"""Commands that make models: fit, train, blend, vectors."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.conftest import make_untrained_hred, run_cli
from tests.conftest import run_command as printed

from nextquery import fit, prepare
from nextquery.cli.entry import save_on_signals
from nextquery.cli.fit import _summary
from nextquery.errors import InputError
from nextquery.model.hred import HRED
from nextquery.text.vectors import read_word_vectors

SHARED = [(f"a{n}", ["red shoes", "red boots"]) for n in range(3)]
ALONE = [(f"b{n}", [f"shoes {n}", f"boots {n}"]) for n in range(20)]


def _fitted(data: Path, kind: str, out: Path, *more: str) -> Any:
    return run_cli("fit", data, "--kind", kind, "--out", out, *more)


def test_a_nearly_empty_model_says_why(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log([*SHARED, *ALONE], min_users=2)).path
    message = _fitted(data, "adjacency", tmp_path / "model").stderr

    assert "Only 13.0% of the background's searches are of queries that 2 users typed" in message
    assert "It would be 100.0% with --min-users 1" in message


def test_shortcuts_without_clicks_says_what_was_chosen(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(tiny_log(SHARED)).path
    message = json.loads(_fitted(data, "shortcuts", tmp_path / "model", "--json").stdout)

    assert message["settings"]["satisfactory"] is False
    [advice] = message["advice"]
    assert advice.endswith("all sessions are indexed (--set satisfactory=false).")


@pytest.mark.parametrize(
    ("kind", "more", "reason"),
    [
        ("rescue", (), "the log has no clicks"),
        ("rescue", ("--hits",), "no known query without hits is followed by one that has some"),
        ("popularity", ("--set", "trending_days=90"), "the log has 1 day, and a trend"),
    ],
)
def test_an_empty_model_says_why(
    kind: str, more: tuple[str, ...], reason: str, prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    (tmp_path / "titles").write_text("something else\n")
    if more == ("--hits",):
        more = ("--hits", str(tmp_path / "titles"))
    data = prepared(tiny_log(SHARED)).path
    message = _fitted(data, kind, tmp_path / "model", *more).stderr
    assert f"model has no suggestions: {reason}" in message
    message = json.loads(_fitted(data, kind, tmp_path / "model", *more, "--json").stdout)
    assert message["empty"] is True


FACTS: dict[str, object] = {
    "seconds": 200.0,
    "steps": 1200,
    "best_step": 1100,
    "validation_perplexity_by_context": {"0": 20.04, "all": 8.0},
}


def test_the_summary_says_what_to_do_next() -> None:
    assert _summary(Path("model"), FACTS).splitlines() == [
        "model: trained in 3m 20s, 1200 steps, best at step 1100",
        "validation perplexity by number of earlier queries: 0: 20.0, all: 8.0",
        "try: nextquery suggest model 'a query' 'the next one'",
    ]


def test_an_unknown_config_and_an_unknown_key_are_refused(tmp_path: Path) -> None:
    for option, value in (("--config", "enormous"), ("--set", "train.epoch=3")):
        with pytest.raises(InputError, match=value.split("=")[0]):
            run_cli("train", tmp_path, "--out", tmp_path / "model", option, value)
    assert not (tmp_path / "model").exists()


def test_the_first_signal_is_a_request_and_the_usual_handling_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with save_on_signals() as request:
        assert request.signal == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.signal == signal.SIGTERM
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and models of 120 sessions, one an hour."""
    target = tmp_path_factory.mktemp("blend command")
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
    data = prepare(table, target / "data", spelling=False, min_users=1)
    make_untrained_hred(data, target / "hred")
    fit(data, "adjacency", target / "adjacency")
    words = "blend", target / "hred", target / "adjacency", "--data", target / "data"
    assert "has candidates: hred" in printed(*words, "--out", target / "blend", "--set", "cases=9")
    return target


def test_weights_and_settings_are_printed(folder: Path) -> None:
    words = "blend", folder / "hred", folder / "adjacency", "--data", folder / "data"
    result = json.loads(printed(*words, "--out", folder / "again", "--json"))
    assert list(result["weights"]) == ["no count model has candidates", "adjacency has candidates"]
    assert result["settings"]["specificity"] == 0.25


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
    words = "blend", folder / "adjacency", folder / "hred", "--data", folder / "data"
    with pytest.raises(InputError, match="'adjacency'; a blend has a trained model first"):
        printed(*words, "--out", folder / "none")


GLOVE = "paris 1 2 3 4\nrome 2 4 6 9\nunheard 0 0 0 1\n"
SIZES = ("embedding_size=2", "query_size=4", "session_size=4")


@pytest.fixture(scope="module")
def prepared_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("vectors")
    printed("synth", str(target / "log.tsv"), "--sessions", "150")
    split = ("--split-at", "2006-05-01,2006-05-15,2006-05-23")
    out = "--out", target / "data"
    printed("prepare", target / "log.tsv", *out, "--min-users", "1", *split)
    return str(target / "data")


def test_a_file_has_the_words_of_the_log(prepared_folder: str, tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text(GLOVE)
    out = tmp_path / "vectors.safetensors"
    source = ("--from", str(tmp_path / "glove.txt"))
    result = json.loads(
        printed("vectors", prepared_folder, *source, "--out", str(out), "--size", "2", "--json")
    )
    words = (Path(prepared_folder) / "vocabulary.txt").read_text().splitlines()
    assert result == {"out": str(out), "words": len(words), "with_vector": 2, "size": 2}
    assert set(read_word_vectors(out, {*words, "unheard"}).words) == {"paris", "rome"}


def test_an_encoder_gives_every_word_a_vector(
    prepared_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def encode(texts):\n    return [[len(text), ord(text[0]), 1] for text in texts]\n"
    (tmp_path / "my_own_encoder.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "vectors.safetensors"
    said = printed(
        "vectors", prepared_folder, "--encoder", "my_own_encoder:encode", "--out", str(out)
    )
    assert "words (100%), 3 numbers each" in said
    assert "train.word_vectors" in said


@pytest.mark.slow
def test_a_model_begins_with_the_file(prepared_folder: str, tmp_path: Path) -> None:
    """After one step at a rate of almost nothing the first values are still there."""
    (tmp_path / "glove.txt").write_text(GLOVE)
    out = tmp_path / "model"
    keys = [*(f"model.{size}" for size in SIZES), "train.epochs=1", "train.rate=1e-9"]
    keys += ["model.tied=true", "model.dropout=0.0", f"train.word_vectors={tmp_path}/glove.txt"]
    settings = (part for key in keys for part in ("--set", key))
    printed("train", prepared_folder, "--out", out, *settings)
    model = HRED.from_pretrained(out)
    assert model.word_vectors is not None
    result = read_word_vectors(tmp_path / "glove.txt", {"paris", "rome"}).reduced(2).vectors
    rows = [model.vocabulary.id(word) for word in ("paris", "rome")]
    trained = model.word_vectors.weight.detach()[rows].numpy()
    # Two words lie on one line through their mean.
    assert np.abs(trained[:, 1]).max() < 1e-6
    assert trained[0, 0] / result[0, 0] == pytest.approx(trained[1, 0] / result[1, 0], rel=1e-4)
    assert torch.isfinite(model.word_vectors.weight).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give one"),
        (("--from", "x.txt", "--encoder", "a:b"), "give one"),
        (("--from", "nowhere.txt"), "no such file"),
        (("--encoder", "no.such.module:encode"), "must be module:function"),
        (("--encoder", "json"), "must be module:function"),
    ],
)
def test_what_cannot_be_is_refused(
    prepared_folder: str, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    out = str(tmp_path / "vectors.safetensors")
    with pytest.raises(InputError, match=message):
        printed("vectors", prepared_folder, "--out", out, *options)
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        printed("vectors", prepared_folder, "--out", tmp_path / "vectors.txt", "--from", "x.txt")


def test_unfactored_models_have_no_vectors_to_begin_with(
    prepared_folder: str, tmp_path: Path
) -> None:
    keys = ("--set", "model.factored=false", "--set", "train.word_vectors=x.txt")
    with pytest.raises(InputError, match="factored"):
        printed("train", prepared_folder, "--out", tmp_path / "model", "--config", "tiny", *keys)

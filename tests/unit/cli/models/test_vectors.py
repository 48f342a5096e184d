"""`nextquery vectors` on the command line, and a training run that begins with its file."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.model.hred import HRED
from nextquery.text.vectors import read_word_vectors

GLOVE = "paris 1 2 3 4\nrome 2 4 6 9\nunheard 0 0 0 1\n"
SIZES = ("embedding_size=2", "query_size=4", "session_size=4")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("vectors")
    run("synth", str(place / "log.tsv"), "--sessions", "150")
    split = ("--split-at", "2006-05-01,2006-05-15,2006-05-23")
    run("prepare", str(place / "log.tsv"), "--out", str(place / "data"), "--min-users", "1", *split)
    return str(place / "data")


def test_a_file_has_the_words_of_the_log(folder: str, tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text(GLOVE)
    out = tmp_path / "vectors.safetensors"
    source = ("--from", str(tmp_path / "glove.txt"))
    found = json.loads(run("vectors", folder, *source, "--out", str(out), "--size", "2", "--json"))
    words = (Path(folder) / "vocabulary.txt").read_text().splitlines()
    assert found == {"out": str(out), "words": len(words), "with_vector": 2, "size": 2}
    assert set(read_word_vectors(out, {*words, "unheard"}).words) == {"paris", "rome"}


def test_an_encoder_gives_every_word_a_vector(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def encode(texts):\n    return [[len(text), ord(text[0]), 1] for text in texts]\n"
    (tmp_path / "my_own_encoder.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "vectors.safetensors"
    said = run("vectors", folder, "--encoder", "my_own_encoder:encode", "--out", str(out))
    assert "words (100%), 3 numbers each" in said
    assert "train.word_vectors" in said


@pytest.mark.slow
def test_a_model_begins_with_the_file(folder: str, tmp_path: Path) -> None:
    """After one step at a rate of almost nothing the first values are still there."""
    (tmp_path / "glove.txt").write_text(GLOVE)
    out = tmp_path / "model"
    keys = [*(f"model.{size}" for size in SIZES), "train.epochs=1", "train.rate=1e-9"]
    keys += ["model.tied=true", "model.dropout=0.0", f"train.word_vectors={tmp_path}/glove.txt"]
    run("train", folder, "--out", str(out), *(part for key in keys for part in ("--set", key)))
    model = HRED.from_pretrained(out)
    assert model.word_vectors is not None
    found = read_word_vectors(tmp_path / "glove.txt", {"paris", "rome"}).reduced(2).vectors
    rows = [model.vocabulary.id(word) for word in ("paris", "rome")]
    trained = model.word_vectors.weight.detach()[rows].numpy()
    # Two words lie on one line through their mean.
    assert np.abs(trained[:, 1]).max() < 1e-6
    assert trained[0, 0] / found[0, 0] == pytest.approx(trained[1, 0] / found[1, 0], rel=1e-4)
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
    folder: str, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    out = str(tmp_path / "vectors.safetensors")
    with pytest.raises(InputError, match=message):
        run("vectors", folder, "--out", out, *options)
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        run("vectors", folder, "--out", str(tmp_path / "vectors.txt"), "--from", "x.txt")


def test_unfactored_models_have_no_vectors_to_begin_with(folder: str, tmp_path: Path) -> None:
    keys = ("--set", "model.factored=false", "--set", "train.word_vectors=x.txt")
    with pytest.raises(InputError, match="factored"):
        run("train", folder, "--out", str(tmp_path / "model"), "--config", "tiny", *keys)

"""Vectors of queries that were made elsewhere, from the file to the model that reads them."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from nextquery.errors import ArtifactError, InputError
from nextquery.guard.guard import Guard
from nextquery.inference.network.network import Network
from nextquery.inference.predictor import Predictor
from nextquery.model.files import QUERY_VECTORS
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import ModelConfig, RunConfig
from nextquery.records import Session
from nextquery.text.batching import build_batch
from nextquery.text.corpus import SessionLimits, encode_sessions
from nextquery.text.query_vectors import SPREAD, QueryVectorTable, begin_table, load_table
from nextquery.text.vocabulary import Vocabulary
from nextquery.text.word_vectors import WordVectors

TEXTS = ("red", "boots", "blue", "red boots")
SESSIONS = [("red boots", "boots red", "blue"), ("unheard", "red"), ("blue",)]


def table(size: int = 3) -> QueryVectorTable:
    vectors = np.random.default_rng(1).normal(size=(len(TEXTS), size)).astype(np.float32)
    return QueryVectorTable(WordVectors(TEXTS, vectors))


def model_with_vectors(start_query: bool = False, copying: bool = False) -> HRED:
    torch.manual_seed(3)
    config = ModelConfig.model_validate(
        {
            "vocabulary_size": 3,
            "embedding_size": 4,
            "query_size": 5,
            "session_size": 6,
            "query_vectors": 3,
            "start_query": start_query,
            "copy": copying,
        }
    )
    return HRED(config, Vocabulary(["red", "boots", "blue"]), table()).eval()


def test_a_file_is_brought_to_size_and_spread(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32) * 50
    WordVectors(TEXTS, vectors).save(tmp_path / "made.safetensors")
    found = begin_table(tmp_path / "made.safetensors", {"red", "blue", "red boots"}, 2)
    assert (len(found), found.size) == (3, 2)
    wanted = found.of(["red", "blue", "red boots"])
    assert math.sqrt((wanted**2).mean()) == pytest.approx(SPREAD, rel=1e-4)
    with pytest.raises(InputError, match=r"`model\.query_vectors` asks for 12"):
        begin_table(tmp_path / "made.safetensors", set(TEXTS), 12)


def test_a_saved_table_comes_back(tmp_path: Path) -> None:
    table().save(tmp_path / "table.safetensors")
    found = load_table(tmp_path / "table.safetensors", 3, tmp_path)
    queries = [*TEXTS, "blue boots", "nothing known", ""]
    np.testing.assert_array_equal(found.of(queries), table().of(queries))


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, None])
def test_a_table_that_is_none_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / QUERY_VECTORS
    if content is None:
        words = np.frombuffer(b"red\nboots", dtype=np.uint8)
        save_file({"vectors": np.full((2, 3), np.nan, dtype=np.float32), "words": words}, file)
    else:
        file.write_bytes(content)
    with pytest.raises(ArtifactError, match=QUERY_VECTORS):
        load_table(file, 3, file)


def test_a_table_of_another_size_is_refused(tmp_path: Path) -> None:
    model_with_vectors().save_pretrained(tmp_path / "model")
    table(4).save(tmp_path / "model" / QUERY_VECTORS)
    with pytest.raises(ArtifactError, match="do not fit the configuration"):
        HRED.from_pretrained(tmp_path / "model", verify=False)


@pytest.mark.parametrize("choices", [(False, False), (True, False), (False, True)])
def test_training_and_serving_read_the_same(tmp_path: Path, choices: tuple[bool, bool]) -> None:
    """The likelihood of training is that of the saved model, opened without PyTorch's part."""
    model = model_with_vectors(*choices)
    model.save_pretrained(tmp_path / "model")
    opened = HRED.from_pretrained(tmp_path / "model")
    assert opened.table is not None
    likelihood = SessionLikelihood(opened, chunk=5).eval()
    predictor = Predictor(Network.from_pretrained(tmp_path / "model"), Guard())
    for number, session in enumerate(SESSIONS):
        corpus = encode_sessions(
            [Session(number, "user", session)],
            *(model.vocabulary, SessionLimits(9, 9), tmp_path / str(number), table()),
        )
        with torch.no_grad():
            expected = float(likelihood(build_batch(corpus, np.arange(1)))[0])
        states = predictor.encoder.encode_many([session[:n] for n in range(len(session))])
        scored = predictor.score_many(states, [[query] for query in session])
        found = math.fsum(each.log_likelihood for row in scored for each in row)
        assert found == pytest.approx(expected, abs=1e-4)


def test_the_vectors_matter(tmp_path: Path) -> None:
    """Another table, other session states: the input is read, not ignored."""
    model = model_with_vectors()
    states = [
        Predictor(Network(model.config, model.vocabulary, model.arrays(), each), Guard())
        .encoder.encode(["red boots", "blue"])
        .session_state
        for each in (table(), QueryVectorTable(WordVectors(("red boots",), np.ones((1, 3), "f4"))))
    ]
    assert np.abs(states[0] - states[1]).max() > 1e-3


def test_gates_and_query_vectors_have_the_further_numbers(tmp_path: Path) -> None:
    model = model_with_vectors()
    network = Network(model.config, model.vocabulary, model.arrays(), table())
    vectors = Predictor(network, Guard()).encoder.query_vectors(["red boots", "blue"])
    assert vectors.shape == (2, 5 + 3)
    np.testing.assert_allclose(vectors[:, 5:], table().of(["red boots", "blue"]))


@pytest.mark.parametrize("section", ["model", "train"])
def test_size_and_file_need_each_other(section: str) -> None:
    given = {"model": {"query_vectors": 8}, "train": {"query_vectors": "some.safetensors"}}
    with pytest.raises(ValueError, match="need each other"):
        RunConfig.model_validate({section: given[section]})
    assert RunConfig.model_validate(given).model.query_vectors == 8

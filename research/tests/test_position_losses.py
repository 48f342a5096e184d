"""Losses symbol by symbol: they add up to the perplexity of training, and kinds are told apart."""

from pathlib import Path

import numpy as np
import pytest
import torch

from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import ModelConfig
from nextquery.text.batching import build_batch
from nextquery.text.corpus import SessionLimits, encode_sessions
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary
from nextquery.training.distributed import Processes
from nextquery.training.trainer import measure
from research.position_losses import CONTEXTS, TARGETS, _seen, _targets, losses, mean_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    folder = tmp_path_factory.mktemp("losses")
    write_log(folder / "log.tsv", sessions=300, seed=1)
    prepare([folder / "log.tsv"], folder / "data", PrepareSettings(spelling=False, min_users=1))
    return PreparedData(folder / "data")


def saved(folder: Path, data: PreparedData, seed: int) -> HRED:
    torch.manual_seed(seed)
    sizes = {"embedding_size": 4, "query_size": 6, "session_size": 8}
    config = ModelConfig.model_validate({**sizes, "copy": True, "character_ngrams": 50})
    model = HRED(config, Vocabulary(data.words()[:60]))
    model.save_pretrained(folder)
    return model


def test_symbols_add_up_to_the_perplexity_of_training(data: PreparedData, tmp_path: Path) -> None:
    model = saved(tmp_path / "one", data, 1)
    saved(tmp_path / "two", data, 2)
    one, two = (losses(tmp_path / name, data.artifact.path) for name in ("one", "two"))
    sessions = encode_sessions(
        data.sessions("validation"),
        model.vocabulary,
        SessionLimits(20, 30),
        tmp_path / "sessions",
        ngram_buckets=50,
    )
    alone = Processes(0, 1, torch.device("cpu"))
    expected = measure(SessionLikelihood(model, chunk=256), sessions, alone)
    assert one.perplexity() == pytest.approx(expected.perplexity, abs=0.01)
    assert len(one.rows) == expected.symbols
    np.testing.assert_array_equal(one.targets, two.targets)
    outside = TARGETS.index("outside")
    assert (one.targets != outside).sum() == expected.known_symbols
    together = mean_of([one, two])
    np.testing.assert_allclose(np.exp(together.rows), (np.exp(one.rows) + np.exp(two.rows)) / 2)


def test_symbols_are_told_apart_by_target_and_context(data: PreparedData, tmp_path: Path) -> None:
    model = saved(tmp_path / "model", data, 1)
    some = list(data.sessions("validation"))[:5]
    sessions = encode_sessions(some, model.vocabulary, SessionLimits(20, 30), tmp_path / "sessions")
    counts = np.full(len(model.vocabulary), 100)
    counts[10:20], counts[20:] = 50, 3
    batch = build_batch(sessions, np.arange(len(some)))
    for word, kind in zip(batch.extended_targets, _targets(batch, counts), strict=True):
        known = 1 if word < 10 else 2 if word < 20 else 3 if word < len(counts) else 4
        assert kind == (0 if word == END_OF_QUERY else known)
    contexts = _seen(batch, counts)
    for place, word in enumerate(batch.extended_targets):
        row, column = divmod(int(batch.copies.places[place]), batch.copies.targets.shape[1])
        query = batch.copies.target_queries[row, column]
        ids = batch.copies.source_words[row][batch.copies.source_queries[row] < query]
        ids = ids[ids >= 0]
        rarest = min((counts[each] if each < len(counts) else -1 for each in ids), default=None)
        expected = 0 if rarest is None else 3 if rarest < 0 else 2 if rarest < 10 else 1
        assert contexts[place] == expected, (word, ids)
    assert {CONTEXTS[kind] for kind in contexts} >= {"no earlier query", "a rarer word"}

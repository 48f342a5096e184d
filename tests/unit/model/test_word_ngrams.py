"""A model whose words have n-grams against one whose word vectors were added up by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextquery.model.hred import HRED
from nextquery.model.likelihood import Candidates, SessionLikelihood
from nextquery.model.settings import ModelConfig
from nextquery.model.stored import take_word_vectors
from nextquery.records import Session
from nextquery.text.batching import Batch, build_batch
from nextquery.text.corpus import SessionLimits, encode_sessions
from nextquery.text.vectors import NgramTable, WordVectors, bucket, ngrams
from nextquery.text.vocabulary import PADDING, UNKNOWN, Vocabulary

WORDS = ["red", "suede", "shoes", "blue", "boots"]
BUCKETS = 31
SESSIONS = [("red shoes", "blue zebra", "zebra boots"), ("suede shoes", "yak", "red yak zebra")]
FORMS = [{}, {"tied": True}, {"tied": True, "copy": True}]


def model_with(buckets: int = BUCKETS, words: list[str] = WORDS, **settings: Any) -> HRED:
    torch.manual_seed(1)
    sizes = {"embedding_size": 4, "query_size": 5, "session_size": 6}
    config = ModelConfig.model_validate({**sizes, "character_ngrams": buckets, **settings})
    return HRED(config, Vocabulary(words)).double().eval()


@torch.no_grad()
def drawn(model: HRED) -> HRED:
    """The model with other weights, its n-grams' included."""
    for parameter in model.parameters():
        parameter.copy_(0.7 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def mean_of(model: HRED, word: str) -> torch.Tensor:
    assert model.character_ngrams is not None
    rows = [bucket(item, BUCKETS) for item in ngrams(word)]
    return model.character_ngrams.weight[rows].mean(dim=0)


@torch.no_grad()
def added_up(model: HRED) -> HRED:
    """The same model without n-grams: they are in its word vectors."""
    plain = model_with(0, tied=model.config.tied, copy=model.config.copying)
    weights = dict(model.named_parameters())
    for name, parameter in plain.named_parameters():
        parameter.copy_(weights[name])
    assert plain.word_vectors is not None
    for word in WORDS:
        plain.word_vectors.weight[plain.vocabulary.id(word)] += mean_of(model, word)
    return plain


def _likelihood(model: HRED) -> SessionLikelihood:
    return SessionLikelihood(model, chunk=3).double().eval()


def batch_of(model: HRED, folder: Path, sessions: Sequence[tuple[str, ...]]) -> Batch:
    records = [Session(number, "user", item) for number, item in enumerate(sessions)]
    corpus = encode_sessions(
        records,
        model.vocabulary,
        SessionLimits(9, 9),
        folder / str(model.config.character_ngrams),
        ngram_buckets=model.config.character_ngrams,
    )
    return build_batch(corpus, np.arange(len(sessions)))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("sampled", [False, True])
def test_known_words_have_the_sum_as_their_vector(
    tmp_path: Path, form: dict[str, Any], sampled: bool
) -> None:
    model = drawn(model_with(**form))
    plain = added_up(model)
    known = [("red shoes", "blue boots", "suede"), ("shoes", "suede shoes")]
    ids = np.arange(8)
    weights = np.zeros(8, dtype=np.float64)  # in the precision of the model
    candidates = Candidates(ids, weights) if sampled else None  # type: ignore[arg-type]
    with torch.no_grad():
        values = [
            float(_likelihood(item)(batch_of(item, tmp_path, known), candidates)[0])
            for item in (model, plain)
        ]
    assert values[0] == pytest.approx(values[1], abs=1e-9)


def test_a_word_outside_the_vocabulary_is_encoded_by_its_n_grams(tmp_path: Path) -> None:
    model = drawn(model_with(copy=True))
    batch = batch_of(model, tmp_path, SESSIONS)
    assert batch.outside is not None
    assert len(batch.outside) == 2  # zebra and yak
    words = torch.from_numpy(batch.encoder_words)
    result = model.word_inputs(words, batch.outside).detach()
    assert model.word_vectors is not None
    unknown = model.word_vectors.weight[UNKNOWN].detach()
    for word, number in (("zebra", 8), ("yak", 9)):
        rows = result[words == number]
        torch.testing.assert_close(rows, (unknown + mean_of(model, word)).expand_as(rows))
    # The decoder reads them as the unknown word, and copying tells them apart.
    assert batch.decoder_words.max() < 8
    assert set(batch.extended_targets[batch.extended_targets >= 8]) == {8, 9}


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_are_those_of_finite_differences(
    tmp_path: Path, form: dict[str, Any], sparse: bool
) -> None:
    model = drawn(model_with(**form))
    table = model.character_ngrams
    assert table is not None
    table.sparse = sparse
    likelihood = _likelihood(model)
    batch = batch_of(model, tmp_path, SESSIONS)
    likelihood(batch)[0].backward()
    assert table.weight.grad is not None
    slopes = table.weight.grad.to_dense()
    rng = np.random.default_rng(2)
    with torch.no_grad():
        for row in rng.choice(BUCKETS, 6, replace=False):
            values = []
            for change in (1e-6, -1e-6):
                table.weight[row, 2] += change
                values.append(float(likelihood(batch)[0]))
                table.weight[row, 2] -= change
            assert float(slopes[row, 2]) == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-5)


def test_a_model_begins_as_one_without_n_grams() -> None:
    with_ngrams, without = model_with().float(), model_with(0).float()
    weights = dict(with_ngrams.named_parameters())
    assert not weights.pop("character_ngrams.weight").any()
    for name, parameter in without.named_parameters():
        assert torch.equal(parameter, weights[name])
    vectors = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    for model in (with_ngrams, without):
        assert model.word_vectors is not None
        word_vectors = WordVectors(tuple(WORDS), vectors)
        take_word_vectors(model.word_vectors, model.vocabulary, word_vectors)
    words = torch.arange(8)
    assert torch.equal(with_ngrams.word_inputs(words), without.word_inputs(words))


@pytest.mark.parametrize("tied", [False, True])
def test_a_folder_has_whole_vectors_and_opens_as_it_was(tmp_path: Path, tied: bool) -> None:
    model = drawn(model_with(tied=tied)).float()
    model.save_pretrained(tmp_path / "model")
    opened = HRED.from_pretrained(tmp_path / "model")
    for (name, parameter), result in zip(
        model.named_parameters(), opened.parameters(), strict=True
    ):
        torch.testing.assert_close(result, parameter, msg=name)
    stored = model.arrays()["word_vectors.weight"]
    assert model.word_vectors is not None
    expected = model.word_vectors.weight[3].detach() + mean_of(model, "red")
    np.testing.assert_allclose(stored[3], expected.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(stored[PADDING], model.word_vectors.weight[PADDING].detach())


def test_a_query_without_any_word_has_no_n_grams() -> None:
    model = model_with()
    assert not model.word_inputs(torch.tensor([PADDING])).any()
    assert model.character_ngrams is not None
    empty = NgramTable.of([], BUCKETS)
    assert model.character_ngrams.means(torch.zeros(0, dtype=torch.long), empty).shape == (0, 4)


def test_tables_over_the_vocabulary_have_no_rows_for_them() -> None:
    with pytest.raises(ValueError, match="character_ngrams needs factored = true"):
        ModelConfig(character_ngrams=10, factored=False)

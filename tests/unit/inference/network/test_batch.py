"""What can be copied from contexts that are decoded together."""

import numpy as np

from nextquery.inference.decoder import ContextBatch
from nextquery.inference.predictor import Predictor

from ..conftest import ModelMaker, predictor_of


def batch_of(predictor: Predictor, *contexts: list[str]) -> ContextBatch:
    return ContextBatch(predictor.model, predictor.encoder.encode_many(contexts))


def test_sources_of_all_contexts_stand_one_behind_the_other(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(copy=True))
    batch = batch_of(predictor, ["w2 zebra", "w1 zebra"], [], ["w7"])
    sources = batch.sources
    assert sources is not None
    assert sources.first.tolist() == [0, 4, 4, 5]
    words = sources.own.words
    places = zip([0, 0, 0, 0, 2], sources.places, strict=True)
    found = [words[sources.own.first[context] + place] for context, place in places]
    own = batch.own[0]
    expected = [own.id("w2"), own.id("zebra"), own.id("w1"), own.id("zebra"), own.id("w7")]
    assert found == expected
    ages = predictor.model.weights["copying.age"]
    np.testing.assert_array_equal(sources.age_scores, ages[[1, 1, 0, 0, 0]])
    key = predictor.model.weights["copying.key.weight"]
    np.testing.assert_allclose(sources.keys, sources.states @ key.T / 4.0, rtol=1e-5, atol=1e-6)


def test_without_words_or_without_copying_there_are_no_sources(make_model: ModelMaker) -> None:
    assert batch_of(predictor_of(make_model(copy=True)), [], []).sources is None
    assert batch_of(predictor_of(make_model()), ["w1"]).sources is None

"""What can be copied from contexts that are decoded together."""

import numpy as np

from nextquery.inference.context import ContextBatch, SessionVocabulary
from nextquery.inference.copying import CopySources
from nextquery.inference.predictor import Predictor

from ..conftest import ModelMaker, hred_of, predictor_of


def sources_of(
    predictor: Predictor, *contexts: list[str]
) -> tuple[CopySources | None, SessionVocabulary]:
    """What can be copied, and the words of the first context."""
    states = predictor.encoder.encode_many(contexts)
    batch = ContextBatch(predictor.model.vocabulary, states)
    network = hred_of(predictor).network
    if not network.config.copying:
        return None, batch.vocabularies[0]
    return CopySources.of(network.weights, network.products, batch), batch.vocabularies[0]


def test_sources_of_all_contexts_stand_one_behind_the_other(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(copy=True))
    sources, own = sources_of(predictor, ["w2 zebra", "w1 zebra"], [], ["w7"])
    assert sources is not None
    assert sources.first.tolist() == [0, 4, 4, 5]
    words = sources.table.words
    places = zip([0, 0, 0, 0, 2], sources.columns, strict=True)
    found = [words[sources.table.first[context] + place] for context, place in places]
    expected = [own.id("w2"), own.id("zebra"), own.id("w1"), own.id("zebra"), own.id("w7")]
    assert found == expected
    ages = hred_of(predictor).network.weights["copying.age"]
    np.testing.assert_array_equal(sources.age_scores, ages[[1, 1, 0, 0, 0]])
    key = hred_of(predictor).network.weights["copying.key.weight"]
    np.testing.assert_allclose(sources.keys, sources.states @ key.T / 4.0, rtol=1e-5, atol=1e-6)


def test_without_words_or_without_copying_there_are_no_sources(make_model: ModelMaker) -> None:
    assert sources_of(predictor_of(make_model(copy=True)), [], [])[0] is None
    assert sources_of(predictor_of(make_model()), ["w1"])[0] is None

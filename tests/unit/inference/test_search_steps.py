"""The steps of a search in NumPy: what ends, what goes on, and what the bounds give up."""

import numpy as np
import pytest

from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextBatch
from nextquery.inference.decoder import SearchStart
from nextquery.inference.rules import LivePrefixes, VocabularyRules
from nextquery.inference.search import ArraySteps
from nextquery.inference.settings import DecodeConfig

from .conftest import ModelMaker, predictor_of

CONTEXTS = [["w1 w2", "w3 zebra"], ["w7"]]


def steps_of(make_model: ModelMaker, config: DecodeConfig) -> ArraySteps:
    predictor = predictor_of(make_model(seed=2, copy=True), compiled=False)
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many(CONTEXTS))
    shared = VocabularyRules(Guard(), predictor.model.vocabulary)
    rules = [
        shared.for_context(queries, own)
        for queries, own in zip(CONTEXTS, batch.vocabularies, strict=True)
    ]
    decoder = predictor.decoder("exact")
    start = SearchStart(rules, decoder.start(batch), LivePrefixes.start(2))
    return ArraySteps(decoder, start, config, None)


def test_every_step_is_a_word_longer_until_the_longest(make_model: ModelMaker) -> None:
    steps = steps_of(make_model, DecodeConfig(beam=30, max_words=3))
    lengths = []
    while (ended := steps.next([-np.inf] * 2)) is not None:
        lengths.append({len(words) for _, words, _ in ended})
    assert len(lengths) == 4
    assert lengths[0] == set()  # fewer than one word
    assert lengths[1:] == [{1}, {2}, {3}]


def test_what_a_bound_gives_up_never_ends(make_model: ModelMaker) -> None:
    config = DecodeConfig(beam=30, max_words=3)
    free, bounded = steps_of(make_model, config), steps_of(make_model, config)
    seen = 0
    while (ended := free.next([-np.inf] * 2)) is not None:
        allowed = [each for each in ended if each.context == 1]
        found = list(bounded.next([np.inf, -np.inf]) or ())
        if seen:
            assert [each.words for each in found] == [each.words for each in allowed]
        seen += 1
    assert seen == 4
    assert bounded.next([np.inf, -np.inf]) is None


@pytest.mark.parametrize("least", [2, 3])
def test_too_short_queries_do_not_end(make_model: ModelMaker, least: int) -> None:
    steps = steps_of(make_model, DecodeConfig(beam=30, max_words=3, min_words=least))
    lengths = set()
    while (ended := steps.next([-np.inf] * 2)) is not None:
        lengths |= {len(words) for _, words, _ in ended}
    assert lengths == set(range(least, 4))

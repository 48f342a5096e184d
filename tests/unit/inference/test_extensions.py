"""Allowed extensions: cut by the beam, whatever decoder is asked."""

import numpy as np
import pytest

from nextquery.guard.fingerprints import RareSet, pair_keys, text_keys
from nextquery.guard.guard import Guard
from nextquery.guard.tables import Tables
from nextquery.inference.context import ContextBatch
from nextquery.inference.rules import Extensions, LivePrefixes, VocabularyRules, allowed_extensions
from nextquery.text.vocabulary import END_OF_QUERY

from .conftest import ModelMaker, predictor_of

CONTEXTS = [["w1 w2 zebra", "w1 gnu"], [], ["w5 w6 w5 w7 yak w8"], ["w9"]]
WORDS = [f"w{number}" for number in range(150)] + ["zebra", "gnu", "yak"]


def some_pairs(share: float, seed: int) -> np.ndarray:
    keys = text_keys(WORDS, b"")
    chosen = np.random.default_rng(seed).random((len(keys), len(keys))) < share
    return np.sort(pair_keys(keys[:, None], keys[None, :])[chosen])


def guard() -> Guard:
    """Some pairs are common, many rare."""
    tables = Tables(
        min_users=2,
        common_pairs=some_pairs(0.1, 1),
        rare_pairs=RareSet.build(some_pairs(0.4, 2)),
    )
    return Guard(tables)


def extended(
    make_model: ModelMaker, checked: Guard, *, compiled: bool, seen: bool
) -> list[Extensions]:
    """The first word of each context, and the next of four prefixes of each."""
    predictor = predictor_of(make_model(words=150, copy=True), checked, compiled=compiled)
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many(CONTEXTS))
    shared = VocabularyRules(checked, predictor.model.vocabulary)
    rules = [
        shared.for_context(queries, own, seen_pairs=seen)
        for queries, own in zip(CONTEXTS, batch.vocabularies, strict=True)
    ]
    decoder = predictor.decoder("fast")
    prefixes, live = decoder.start(batch), LivePrefixes.start(4)
    first = allowed_extensions(decoder.predict(prefixes), live, 12, rules)
    parents = np.arange(4).repeat(4)
    words = 3 + np.arange(16) * 5
    words[1] = 153  # zebra
    longer = LivePrefixes(words[:, None], -np.arange(16.0) % 4, parents)
    prefixes = decoder.advance(prefixes, parents, words)
    return [first, allowed_extensions(decoder.predict(prefixes), longer, 12, rules)]


@pytest.mark.parametrize("seen", [False, True])
def test_no_more_go_on_than_the_beam_holds(
    make_model: ModelMaker, compiled: bool, seen: bool
) -> None:
    for found in extended(make_model, guard(), compiled=compiled, seen=seen):
        for context in range(4):
            words = found.words[found.first[context] : found.first[context + 1]]
            going = np.flatnonzero(words != END_OF_QUERY)
            assert 0 < len(going) <= 12
            if len(going) == 12:
                assert going[-1] == len(words) - 1


def test_extensions_of_some_contexts_stand_one_behind_the_other() -> None:
    part = (np.array([0, 1]), np.array([5, 1]), np.array([-1.0, -2.0]))
    joined = Extensions.joined(3, [(1, part)])
    assert joined.first.tolist() == [0, 0, 2, 2]
    assert joined.words.tolist() == [5, 1]
    assert Extensions.joined(1, []).totals.dtype == np.float64

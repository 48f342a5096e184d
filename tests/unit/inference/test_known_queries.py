"""Only known queries: what may come next, and the search that is held to it."""

from typing import Any

import marisa_trie
import pytest

from nextquery.guard.guard import Guard
from nextquery.guard.tables import COUNT_FORMAT, Tables
from nextquery.inference.predictor import Predictor
from nextquery.inference.rules import MOST_WORDS, KnownQueries
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary

from .conftest import ModelMaker, assert_scored, predictor_of, texts

WORDS = Vocabulary(["paris", "hotels", "map", "rome"])
KNOWN = ["w1 w2", "w1 w2 w3", "w5", "w6 w7", "w8 w9 w10", "zebra w1", "w11 w1", "w12"]


def ids(*words: str) -> tuple[int, ...]:
    return tuple(map(WORDS.id, words))


def test_what_may_follow_each_beginning() -> None:
    known = KnownQueries(["paris hotels", "paris", "rome map paris", "oslo map"], WORDS)
    assert len(known) == 3  # oslo is not a word of the vocabulary
    expected = {
        (): ids("paris", "rome"),
        ids("paris"): (END_OF_QUERY, *ids("hotels")),
        ids("paris", "hotels"): (END_OF_QUERY,),
        ids("rome"): ids("map"),
        ids("rome", "map"): ids("paris"),
        ids("hotels"): (),
        ids("paris", "hotels", "map"): (),
    }
    for prefix, words in expected.items():
        assert known.next_words(prefix).tolist() == sorted(words), prefix


def test_long_queries_are_left_out_and_long_prefixes_have_no_end() -> None:
    longest = " ".join(["paris"] * MOST_WORDS)
    known = KnownQueries([longest, longest + " paris"], WORDS)
    assert len(known) == 1
    assert known.next_words(ids(*longest.split())).tolist() == [END_OF_QUERY]
    assert known.next_words(ids(*longest.split(), "paris")).tolist() == []


PLAIN = DecodeConfig(specificity=0.0, fold=False, beam=50)


def knowing(make_model: ModelMaker, **form: Any) -> Predictor:
    guard = Guard()
    queries = marisa_trie.RecordTrie(COUNT_FORMAT, [(text, (3,)) for text in KNOWN])
    guard.tables = Tables(queries=queries)
    return predictor_of(make_model(**form), guard)


@pytest.mark.parametrize("form", [{}, {"copy": True}, {"decoder_context": "all"}], ids=str)
@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_only_known_queries_are_found_and_all_of_them(
    make_model: ModelMaker, form: dict[str, Any], mode: Any
) -> None:
    predictor = knowing(make_model, **form)
    states = predictor.encoder.encode_many([["w1 w2", "w4"], ["zebra"], []])
    config = DecodeConfig(known="only", specificity=0.0, fold=False, mode=mode)
    lists = predictor.suggest_many(states, 20, config)
    for state, result in zip(states, lists, strict=True):
        possible = {text for text in KNOWN if "zebra" not in text} - set(state.queries)
        assert set(texts(result)) == possible
    assert_scored(predictor, states, lists, within=0.05)


def test_the_length_is_limited(make_model: ModelMaker) -> None:
    predictor = knowing(make_model)
    state = predictor.encoder.encode(["w4"])
    config = DecodeConfig(known="only", max_words=2, fold=False)
    [result] = predictor.suggest_many([state], 20, config)
    assert set(texts(result)) == {"w1 w2", "w5", "w6 w7", "w11 w1", "w12"}


def test_completions_and_samples_are_restricted_to_known_queries(make_model: ModelMaker) -> None:
    predictor = knowing(make_model)
    state = predictor.encoder.encode(["w4"])
    config = DecodeConfig(known="only", fold=False, beam=40)
    completed = {item.text for item in predictor.complete(state, "w1", 20, config)}
    assert completed == {"w1 w2", "w1 w2 w3", "w11 w1", "w12"}
    sampling = DecodeConfig(known="only", strategy="sample", beam=40, fold=False)
    drawn = predictor.suggest_many([state], 40, sampling)[0]
    assert drawn
    assert {item.text for item in drawn} <= set(KNOWN)


def test_preferred_queries_rise(make_model: ModelMaker) -> None:
    predictor = knowing(make_model)
    state = predictor.encoder.encode(["w1 w2", "w4"])
    free, preferred = (
        texts(predictor.suggest_many([state], 40, PLAIN.model_copy(update={"known": known}))[0])
        for known in ("free", "prefer")
    )
    common = [text for text in KNOWN if text in free and text in preferred]
    assert common
    assert all(preferred.index(text) <= free.index(text) for text in common)
    assert sum(map(preferred.index, common)) < sum(map(free.index, common))

"""A model with everything it can be asked for: settings, completion, analysis, memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import marisa_trie
import numpy as np
import pytest

from nextquery.artifacts import Artifact
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.guard.tables import COUNT_FORMAT, Tables
from nextquery.inference.context import ContextLimits
from nextquery.inference.native import give_back, keep_freed_memory
from nextquery.inference.predictor import Predictor, TypedPrefix, WordIndex
from nextquery.inference.settings import MOST_BEAM, DecodeConfig, override
from nextquery.model.hred import HRED
from nextquery.records import QueryWeight
from nextquery.settings import descriptions
from nextquery.suggesters.neural import HREDSuggester, draw_gates, query_weights
from nextquery.text.vocabulary import Vocabulary

from .conftest import ModelMaker, assert_scored, hred_of, predictor_of, texts

CONFIG = DecodeConfig(beam=10, max_words=4, fold=False, specificity=0.0)


def test_a_list_may_be_longer_than_the_beam(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])
    assert len(predictor.suggest_many([state], 25, CONFIG)[0]) == 25


def test_many_contexts_are_decoded_in_parts(predictor: Predictor, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    states = predictor.encoder.encode_many([["w1"], ["w2 w3"], ["zebra"], []])
    together = predictor.suggest_many(states, 5, CONFIG)
    few = 15 * len(predictor.model.vocabulary)  # one context of beam 10 at a time
    monkeypatch.setattr("nextquery.inference.predictor.MOST_LOGITS", few)
    parts = predictor.suggest_many(states, 5, CONFIG)
    assert list(map(texts, parts)) == list(map(texts, together))


def test_overrides_are_typed() -> None:
    config = override(DecodeConfig(), {"beam": 7}, ["max_words=4", "length_normalised=true"])
    assert (config.beam, config.max_words, config.length_normalised) == (7, 4, True)


@pytest.mark.parametrize(
    "text", ["beam", "beam=0", "nothing=1", "min_words=20", "top_p=2", "mode=quick"]
)
def test_bad_settings_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        override(DecodeConfig(), {}, [text])


def test_the_fast_layer_is_for_large_vocabularies() -> None:
    assert DecodeConfig().output_mode(9_000) == "exact"
    assert DecodeConfig().output_mode(90_000) == "fast"
    assert DecodeConfig(mode="exact").output_mode(90_000) == "exact"


def test_every_setting_is_documented() -> None:
    documented = descriptions(DecodeConfig)
    assert [key for key in DecodeConfig.model_fields if not documented.get(key)] == []


def test_the_longest_list_is_as_long_as_the_widest_beam() -> None:
    assert DecodeConfig().for_list(1 << 70).beam == MOST_BEAM


COMPLETED = DecodeConfig(beam=30, max_words=4, fold=False)


@pytest.mark.parametrize(
    ("text", "words", "beginning"),
    [
        ("", (), ""),
        ("  ", (), ""),
        ("Cheap fl", ("cheap",), "fl"),
        ("cheap ", ("cheap",), ""),
        ("cheap,", ("cheap",), ""),
        ("Ch", (), "ch"),
    ],
)
def test_the_last_word_is_whole_only_when_something_follows(
    text: str, words: tuple[str, ...], beginning: str
) -> None:
    assert TypedPrefix.read(text) == TypedPrefix(words, beginning)


def test_words_are_found_by_their_beginning() -> None:
    index = WordIndex(Vocabulary(["paris", "party", "pa", "rome", "park"]))
    vocabulary = Vocabulary(["paris", "party", "pa", "rome", "park"])
    result = [vocabulary.words[word] for word in index.beginning_with("par")]
    assert result == ["paris", "park", "party"]
    assert index.beginning_with("x") == []


def test_an_empty_prefix_equals_suggest(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])
    assert (
        predictor.complete(state, " ", 8, COMPLETED)
        == predictor.suggest_many([state], 8, COMPLETED)[0]
    )


def test_completions_begin_with_what_is_typed_and_score_as_rescored(
    any_predictor: Predictor,
) -> None:
    state = any_predictor.encoder.encode(["w1 w2", "w3 zebra"])
    for prefix in ("w1", "w5 ", "w5 w2", "w5 unheard w1"):
        completions = any_predictor.complete(state, prefix, 10, COMPLETED)
        assert len(completions) == 10
        completed = texts(completions)
        assert all(text.startswith(prefix.rstrip()) and text != prefix for text in completed)
        assert_scored(any_predictor, [state], [completions])


def test_a_whole_word_is_not_extended(predictor: Predictor) -> None:
    result = predictor.complete(predictor.encoder.start(), "w1 ", 20, COMPLETED)
    assert {item.text.split()[0] for item in result} == {"w1"}
    result = predictor.complete(predictor.encoder.start(), "w1", 20, COMPLETED)
    assert len({item.text.split()[0] for item in result}) > 1


def test_the_most_likely_next_word_comes_first(predictor: Predictor) -> None:
    """Next-word prediction is completion after a whole word."""
    state = predictor.encoder.encode(["w1 w2"])
    config = DecodeConfig(beam=50, min_words=2, max_words=2, fold=False)
    result = predictor.complete(state, "w7 ", 3, config)
    words = [f"w7 w{number}" for number in range(40)]
    scored = predictor.score_many([state], [words])[0]
    best = sorted(scored, key=lambda item: -item.log_likelihood)
    two = [item.text for item in result if len(item.text.split()) == 2]
    assert two[0] == best[0].text


def test_a_copied_name_is_completed(make_model: ModelMaker) -> None:
    for copying in (False, True):
        predictor = predictor_of(make_model(copy=copying))
        state = predictor.encoder.encode(["zebrafish w1"])
        result = predictor.complete(state, "w2 zeb", 10, COMPLETED)
        assert any(item.text.split()[1] == "zebrafish" for item in result) == copying
        assert all(item.text.split()[1] in ("zeb", "zebrafish") for item in result)


def test_a_beginning_that_no_word_has_is_taken_as_a_word(predictor: Predictor) -> None:
    result = predictor.complete(predictor.encoder.start(), "qqq", 5, COMPLETED)
    assert result
    assert all(item.text.startswith("qqq ") for item in result)


@pytest.mark.parametrize("prefix", ["w1", "w5 unheard w1", "qqq"])
def test_completions_are_drawn_where_the_strategy_is_to_sample(
    predictor: Predictor, prefix: str
) -> None:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])

    def draw(seed: int, **settings: Any) -> list[str]:
        options = {"beam": 12, "max_words": 4, "fold": False, "known": "free", **settings}
        config = DecodeConfig(strategy="sample", seed=seed, **options)
        result = predictor.complete(state, prefix, 12, config)
        drawn = texts(result)
        assert all(text.startswith(prefix.rstrip()) and text != prefix for text in drawn)
        assert_scored(predictor, [state], [result])
        return drawn

    assert draw(1) == draw(1)
    assert any(draw(1) != draw(seed) for seed in range(2, 5))
    assert len(draw(1, top_k=1)) <= 1
    bold = {text.split()[-1] for seed in range(4) for text in draw(seed, temperature=50.0)}
    assert len(bold) > 8


def test_a_prefix_without_an_allowed_word_has_no_drawn_completion(
    make_model: ModelMaker, tmp_path: Path
) -> None:
    file = tmp_path / "list.txt"
    file.write_text("\n".join(["w1", *(f"w1{number}" for number in range(10))]), encoding="utf-8")
    predictor = predictor_of(make_model(), Guard(blocklist=file))
    for strategy in ("beam", "sample"):
        config = COMPLETED.model_copy(update={"strategy": strategy})
        assert predictor.complete(predictor.encoder.start(), "w1", 5, config) == []


CONTEXT = ["w1 w2", "??", "w3", "zebra w4"]


def suggester_of(predictor: Predictor) -> HREDSuggester:
    """The suggester of a model that has no folder."""
    return HREDSuggester(cast("Artifact", None), predictor, CONFIG)


def test_gates_rebuild_the_session_state(predictor: Predictor) -> None:
    """Eq. 3: the state moves from the old one towards the candidate by the gate."""
    network, encoder = hred_of(predictor).network, predictor.encoder
    gates = suggester_of(predictor).update_gates(CONTEXT)
    assert gates.shape == (3, network.config.session_size)
    assert ((gates > 0) & (gates < 1)).all()
    before, after = encoder.encode(["w1 w2"]), encoder.encode(["w1 w2", "w3"])
    vector = encoder.query_vectors(["w3"])
    _, gate = network.extend_session(before.memory.session_state[None], vector)
    np.testing.assert_allclose(gates[1], gate[0], rtol=1e-5, atol=1e-6)
    assert after.queries == ("w1 w2", "w3")


def test_queries_before_those_that_are_read_weigh_nothing(model: HRED) -> None:
    limited = suggester_of(predictor_of(model, limits=ContextLimits(queries=2, words=30)))
    gates, last = limited.update_gates_many([["w9", *CONTEXT], CONTEXT[2:]])
    assert not gates[:2].any()
    np.testing.assert_allclose(gates[2:], last, rtol=1e-5, atol=1e-6)


def test_weights_by_hand() -> None:
    gates = np.array([[0.5, 1.0], [0.2, 0.0], [0.5, 0.5]], dtype=np.float32)
    weights = query_weights(["a", "!", "b", "c"], gates)
    assert [item.query for item in weights] == ["a", "!", "b", "c"]
    assert [item.update for item in weights] == pytest.approx([0.75, 0.0, 0.1, 0.5])
    # a: .5 * .8 * .5 and 1 * 1 * .5; b: .2 * .5 and 0; c: .5 and .5
    assert [item.share for item in weights] == pytest.approx([0.35, 0.0, 0.05, 0.5])


def test_a_query_with_dollar_signs_is_drawn_as_it_was_typed(tmp_path: Path) -> None:
    weights = [QueryWeight("price $\\frac$", 0.5, 1.0)]
    draw_gates(weights, np.array([[0.5]], dtype=np.float32), tmp_path / "gates.png")
    assert (tmp_path / "gates.png").stat().st_size > 0


def test_the_nearest_words_are_those_of_highest_cosine(predictor: Predictor) -> None:
    suggester, vocabulary = suggester_of(predictor), predictor.model.vocabulary
    vectors = suggester.word_vectors()
    matrix = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    cosines = matrix @ matrix[vocabulary.id("w7")]
    rest = [n for n in (-cosines).argsort().tolist() if n > 2]
    expected = [vocabulary.words[n] for n in rest if vocabulary.words[n] != "w7"]
    for n in (5, 100):
        nearest = suggester.neighbours("W7", n, words=True)
        assert [item.text for item in nearest] == expected[:n]
    with pytest.raises(InputError, match="vocabulary"):
        suggester.neighbours("unheard", 5, words=True)


def test_the_nearest_queries(model: HRED) -> None:
    queries = [(query, (1,)) for query in ("w1 w2", "w1 w3", "w30 w31 w32")]
    tables = Tables(queries=marisa_trie.RecordTrie(COUNT_FORMAT, queries))
    suggester = suggester_of(predictor_of(model, Guard(tables)))
    nearest = suggester.neighbours("W1 w2", 2)
    assert "w1 w2" not in [item.text for item in nearest]
    assert nearest[0].cosine >= nearest[1].cosine
    with pytest.raises(InputError, match="no word"):
        suggester.neighbours("!?", 2)
    with pytest.raises(InputError, match="`words`"):
        suggester_of(predictor_of(model)).neighbours("w1", 2)


def test_query_vectors_keep_order_and_repeats(predictor: Predictor) -> None:
    suggester = suggester_of(predictor)
    table = suggester.query_vectors(["w2 w3", "w1", "", "w2  W3"])
    assert table.shape == (4, predictor.model.query_size)
    np.testing.assert_array_equal(table[0], table[3])
    np.testing.assert_array_equal(table[2], 0)
    alone = suggester.query_vectors(["w1"])
    np.testing.assert_allclose(table[1], alone[0], rtol=1e-5, atol=1e-6)


WATCH = """
import json, os, signal, sys
touched = []
def watch(event, arguments):
    if event == "ctypes.dlsym" and arguments[1] in ("mallopt", "malloc_trim"):
        touched.append(arguments[1])
    if event in ("os.putenv", "os.unsetenv"):
        touched.append(arguments[0].decode())
before = dict(os.environ), [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
"""
REPORT = """
after = dict(os.environ), [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
print(json.dumps({"touched": touched, "same": before == after, "threads": threads()}))
"""
LIBRARY = """
import torch
threads = torch.get_num_threads
first = threads()
sys.addaudithook(watch)  # from here on: importing torch is not the library's doing
import nextquery
from pathlib import Path
from nextquery.guard.guard import Guard
from nextquery.suggesters.neural import HREDSuggester
model = HREDSuggester.load(Path(sys.argv[1]), Guard())
model.suggest(["w1 w2"], 3); model.complete(["w1"], "w2 w", 3); model.score(["w1"], ["w2"])
assert threads() == first
"""


@pytest.fixture
def folder(make_model: ModelMaker, tmp_path: Path) -> Path:
    make_model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_the_library_leaves_the_process_as_it_is(folder: Path) -> None:
    control = (
        "from nextquery.inference import native as settings\n"
        "settings.keep_freed_memory(); settings.give_back()\n"
    )
    program = WATCH + LIBRARY + REPORT + control + REPORT
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result, watched = map(json.loads, done.stdout.splitlines())
    assert result["touched"] == []
    assert result["same"]
    assert {"mallopt", "malloc_trim"} <= set(watched["touched"])


def test_giving_back_leaves_the_program_whole(folder: Path) -> None:
    suggester = HREDSuggester.load(folder, Guard())
    before = suggester.suggest(["w1 w2"], 5)
    give_back()
    assert suggester.suggest(["w1 w2"], 5) == before


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator only")
def test_freed_memory_can_be_kept() -> None:
    assert keep_freed_memory()

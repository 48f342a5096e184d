"""Sessions as the network reads them, the output layer, and the weights of a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from nextquery.errors import ArtifactError
from nextquery.inference.context import (
    DEFAULT_LIMITS,
    ContextEncoder,
    ContextLimits,
    ContextState,
    SessionVocabulary,
)
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import HREDMemory
from nextquery.inference.output import BLOCK, CopyTable, Softmax
from nextquery.inference.weights import Floats, check_finite, read_weights, weight_shapes
from nextquery.model.settings import WEIGHTS
from nextquery.text.vocabulary import PADDING, UNKNOWN, Vocabulary

from .conftest import ModelMaker


def assert_same_state(one: ContextState[HREDMemory], other: ContextState[HREDMemory]) -> None:
    state, expected = one.memory.session_state, other.memory.session_state
    np.testing.assert_allclose(state, expected, rtol=1e-4, atol=1e-6)


CONTEXT = ["w1 w2", "W3, zebra!", "  ", "w4 w1 w5 w6"]


def test_extending_query_by_query_equals_encoding_at_once(hred: HREDModel) -> None:
    encoder = ContextEncoder(hred)
    whole, grown = encoder.encode(CONTEXT), encoder.start()
    for query in CONTEXT:
        grown = encoder.extend(grown, query)
    assert grown.queries == whole.queries == ("w1 w2", "w3 zebra", "w4 w1 w5 w6")
    assert_same_state(grown, whole)
    assert grown.copied_words == whole.copied_words
    if hred.copies:
        assert grown.copied_words[:4] == ("w1", "w2", "w3", "zebra")
        np.testing.assert_allclose(
            np.concatenate(grown.memory.word_states),
            np.concatenate(whole.memory.word_states),
            rtol=1e-4,
            atol=1e-6,
        )


def test_neighbours_in_a_batch_change_nothing(hred: HREDModel) -> None:
    encoder = ContextEncoder(hred)
    contexts = [CONTEXT, [], ["w9"], ["w1 w2", "w1 w2"]]
    for context, state in zip(contexts, encoder.encode_many(contexts), strict=True):
        assert_same_state(state, encoder.encode(context))


def test_a_state_never_changes(hred: HREDModel) -> None:
    encoder = ContextEncoder(hred)
    state = encoder.encode(["w1"])
    before = state.memory.session_state.copy()
    encoder.extend(state, "w2 w3")
    np.testing.assert_array_equal(state.memory.session_state, before)
    assert state.queries == ("w1",)


def test_extending_encodes_the_new_query_only(
    hred: HREDModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = ContextEncoder(hred)
    state = encoder.encode(["w1 w2", "w3"])
    read: list[int] = []
    encode = hred.network.encode_queries

    def counting(queries: Sequence[Sequence[int]], outside: Sequence[str]) -> list[Floats]:
        read.append(len(queries))
        return encode(queries, outside)

    monkeypatch.setattr(hred.network, "encode_queries", counting)
    encoder.extend(state, "w4")
    assert read == [1]


def test_a_session_at_its_limit_is_the_same_however_it_is_read(hred: HREDModel) -> None:
    encoder = ContextEncoder(hred, ContextLimits(queries=2, words=3))
    queries = ["w1 w2", "w3", "w4 w5 w6 zebra w7", "w8", "w9 w1"]
    whole, grown = encoder.encode(queries), encoder.start()
    for query in queries:
        grown = encoder.extend(grown, query)
    assert grown.queries == whole.queries == tuple(queries)
    assert_same_state(grown, whole)
    assert grown.copied_words == whole.copied_words
    if hred.copies:
        assert whole.copied_words == ("w8", "w9", "w1")
        assert list(map(len, grown.memory.word_states)) == [1, 2]


def test_only_the_first_words_of_a_query_are_read(hred: HREDModel) -> None:
    encoder = ContextEncoder(hred, ContextLimits(queries=5, words=2))
    long, short = encoder.encode(["w1 w2 w3 w4"]), encoder.encode(["w1 w2"])
    assert_same_state(long, short)
    assert long.copied_words == short.copied_words


def test_the_limits_are_those_of_training() -> None:
    settings = {"model": {}, "train": {"max_queries": 12, "max_words": 7, "seed": 3}}
    assert ContextLimits.from_manifest({"settings": settings}) == ContextLimits(11, 7)
    assert ContextLimits.from_manifest({}) == DEFAULT_LIMITS == ContextLimits(19, 30)


@pytest.mark.parametrize("bad", [{"max_words": 0}, {"max_queries": "many"}, 3])
def test_a_manifest_without_valid_limits_is_refused(bad: object) -> None:
    with pytest.raises(ArtifactError, match="settings"):
        ContextLimits.from_manifest({"settings": {"train": bad}})


KNOWN = Vocabulary(["paris", "hotel"])


def test_words_outside_the_vocabulary_have_ids_after_it() -> None:
    session_words = SessionVocabulary(KNOWN, ["zebra", "paris", "zebra", "gnu"], typed=["yak"])
    assert session_words.outside == ("zebra", "gnu", "yak")
    ids = [session_words.id(word) for word in ("zebra", "gnu", "yak", "paris", "unheard")]
    size = len(KNOWN)
    assert ids == [size, size + 1, size + 2, KNOWN.id("paris"), UNKNOWN]
    assert [session_words.word(ids[index]) for index in (3, 1)] == ["paris", "gnu"]


def test_what_was_typed_but_is_in_no_query_cannot_be_copied() -> None:
    session_words = SessionVocabulary(KNOWN, ["zebra", "paris", "zebra"], typed=["yak"])
    assert session_words.distinct == (KNOWN.id("paris"), session_words.id("zebra"))
    assert session_words.can_be_predicted(session_words.id("hotel"))
    assert session_words.can_be_predicted(session_words.id("zebra"))
    assert not session_words.can_be_predicted(session_words.id("yak"))


def test_every_word_is_found_in_its_own_context_only() -> None:
    contexts = [(3, 7, 9), (), (0, 9), (4,)]
    table = CopyTable.of(contexts, width=10)
    assert table.words.tolist() == [3, 7, 9, 0, 9, 4]
    assert (table.first.tolist(), table.most) == ([0, 3, 3, 5, 6], 3)
    for context, words in enumerate(contexts):
        asked = np.arange(10)
        result = table.columns(np.full(10, context), asked).tolist()
        assert result == [words.index(word) if word in words else -1 for word in range(10)]


WORDS, ROWS = 5_000, 7
WIDTH = WORDS + -WORDS % BLOCK


@pytest.fixture
def logits() -> Floats:
    values = 3 * np.random.default_rng(3).standard_normal((ROWS, WIDTH)).astype(np.float32)
    values[:, WORDS:] = -np.inf
    values[:, PADDING] = -np.inf
    return values


def reference(logits: Floats) -> np.ndarray:
    exact = logits.astype(np.float64)
    return np.asarray(exact - np.log(np.exp(exact).sum(axis=1, keepdims=True)))


@pytest.mark.parametrize("count", [1, 20, BLOCK * 3])
def test_the_best_words_are_those_of_a_flat_top_k(logits: Floats, count: int) -> None:
    before = -np.arange(4.0)
    total = (reference(logits)[2:6] + before[:, None]).ravel()
    positions = np.argsort(-total)[:count]
    best = Softmax(logits).best(slice(2, 6), before, count)
    assert (best.rows * WIDTH + best.words).tolist() == positions.tolist()
    np.testing.assert_allclose(best.totals, total[positions], rtol=1e-5)
    assert best.rest == pytest.approx(total[positions[-1]], abs=1e-5)


def test_given_words_have_their_log_probability(logits: Floats) -> None:
    words = np.random.default_rng(1).integers(1, WORDS, (ROWS, 9))
    expected = np.take_along_axis(reference(logits), words, axis=1)
    np.testing.assert_allclose(Softmax(logits.copy()).of(words), expected, rtol=1e-4)
    some = Softmax(logits.copy()).of(words[2:4], slice(2, 4))
    np.testing.assert_allclose(some, expected[2:4], rtol=1e-4)


SETTINGS: list[dict[str, Any]] = [
    {"usefulness": True},
    {},
    {"factored": False},
    {"tied": True, "output_bias": True},
    {"decoder_context": "output"},
    {"character_ngrams": 50},
    {"character_ngrams": 50, "tied": True},
    {"decoder_context": "all", "gru_biases": True, "copy": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_names_and_shapes_are_those_of_the_model(
    make_model: ModelMaker, settings: dict[str, Any], tmp_path: Path
) -> None:
    model = make_model(**settings)
    shapes = weight_shapes(model.config, len(model.vocabulary))
    expected = model.arrays()
    assert shapes == {name: item.shape for name, item in expected.items()}
    model.save_pretrained(tmp_path / "model")
    result = read_weights(tmp_path / "model" / WEIGHTS, shapes, tmp_path)
    for name, values in expected.items():
        np.testing.assert_array_equal(result[name], values)


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    save_file({"one": np.zeros((2, 3), dtype=np.float32)}, tmp_path / "weights")
    shown = Path("model") / WEIGHTS
    assert read_weights(tmp_path / "weights", {"one": (2, 3)}, shown)["one"].shape == (2, 3)
    for shapes in ({"one": (3, 2)}, {"two": (2, 3)}, {"one": (2, 3), "two": (1,)}, {}):
        with pytest.raises(ArtifactError, match=r"model\.safetensors: its tensors do not fit"):
            read_weights(tmp_path / "weights", shapes, shown)
    save_file({"one": np.zeros((2, 3))}, tmp_path / "weights")
    with pytest.raises(ArtifactError, match="do not fit"):
        read_weights(tmp_path / "weights", {"one": (2, 3)}, shown)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"{}", b"\x02" + bytes(7) + b"[]"])
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "weights").write_bytes(content)
    with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
        read_weights(tmp_path / "weights", {}, tmp_path)


def test_weights_that_are_not_numbers_are_refused() -> None:
    values = np.zeros((5000, 2), dtype=np.float32)
    check_finite({"one": values})
    values[4999, 1] = np.nan
    with pytest.raises(ArtifactError, match="values in one that are not finite"):
        check_finite({"one": values})


def test_arrays_may_be_changed_without_changing_the_file(tmp_path: Path) -> None:
    save_file({"one": np.zeros(3, dtype=np.float32)}, tmp_path / "weights")
    read_weights(tmp_path / "weights", {"one": (3,)}, tmp_path)["one"][:] = 7.0
    again = read_weights(tmp_path / "weights", {"one": (3,)}, tmp_path)["one"]
    np.testing.assert_array_equal(again, 0.0)

"""Sessions as the network reads them, and the words of a session."""

from collections.abc import Sequence

import numpy as np
import pytest

from nextquery.errors import ArtifactError
from nextquery.inference.context import (
    DEFAULT_LIMITS,
    ContextEncoder,
    ContextLimits,
    ContextState,
    SessionVocabulary,
)
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_decoder import HREDMemory
from nextquery.inference.output import CopyTable
from nextquery.inference.weights import Floats
from nextquery.text.vocabulary import UNKNOWN, Vocabulary


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
        np.testing.assert_allclose(
            state.memory.session_state,
            encoder.encode(context).memory.session_state,
            rtol=1e-4,
            atol=1e-6,
        )


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


def test_words_outside_the_vocabulary_have_ids_behind_it() -> None:
    own = SessionVocabulary(KNOWN, ["zebra", "paris", "zebra", "gnu"], given=["yak"])
    first = len(KNOWN)
    assert own.outside == ("zebra", "gnu", "yak")
    assert [own.id(word) for word in ("zebra", "gnu", "yak")] == [first, first + 1, first + 2]
    assert own.id("paris") == KNOWN.id("paris")
    assert own.id("unheard") == UNKNOWN
    assert [own.word(own.id(word)) for word in ("paris", "gnu")] == ["paris", "gnu"]


def test_what_was_typed_but_is_in_no_query_cannot_be_copied() -> None:
    own = SessionVocabulary(KNOWN, ["zebra", "paris", "zebra"], given=["yak"])
    assert own.distinct == (KNOWN.id("paris"), own.id("zebra"))
    assert own.can_be_predicted(own.id("hotel"))
    assert own.can_be_predicted(own.id("zebra"))
    assert not own.can_be_predicted(own.id("yak"))


def test_every_word_is_found_in_its_own_context_only() -> None:
    contexts = [(3, 7, 9), (), (0, 9), (4,)]
    table = CopyTable.of(contexts, width=10)
    assert table.words.tolist() == [3, 7, 9, 0, 9, 4]
    assert (table.first.tolist(), table.most) == ([0, 3, 3, 5, 6], 3)
    for context, words in enumerate(contexts):
        asked = np.arange(10)
        found = table.columns(np.full(10, context), asked).tolist()
        assert found == [words.index(word) if word in words else -1 for word in range(10)]


def test_a_table_without_any_word_finds_nothing() -> None:
    one = CopyTable.of([(), (5,)], width=6)
    assert one.columns(np.array([0, 0, 1]), np.array([5, 0, 5])).tolist() == [-1, -1, 0]

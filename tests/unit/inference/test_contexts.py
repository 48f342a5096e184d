"""A session's state is the same however it is read."""

import torch

from nextquery.inference.contexts import ContextEncoder
from nextquery.model.hred import HRED

CONTEXT = ["w1 w2", "W3, zebra!", "  ", "w4 w1 w5 w6"]


def test_extending_query_by_query_equals_encoding_at_once(model: HRED) -> None:
    encoder = ContextEncoder(model)
    whole, grown = encoder.encode(CONTEXT), encoder.start()
    for query in CONTEXT:
        grown = encoder.extend(grown, query)
    assert grown.queries == whole.queries == ("w1 w2", "w3 zebra", "w4 w1 w5 w6")
    torch.testing.assert_close(grown.session_state, whole.session_state)
    assert grown.copied_words == whole.copied_words
    if model.copying is not None:
        assert grown.copied_words[:4] == ("w1", "w2", "w3", "zebra")
        torch.testing.assert_close(torch.cat(grown.copied_states), torch.cat(whole.copied_states))


def test_neighbours_in_a_batch_change_nothing(model: HRED) -> None:
    encoder = ContextEncoder(model)
    contexts = [CONTEXT, [], ["w9"], ["w1 w2", "w1 w2"]]
    for context, state in zip(contexts, encoder.encode_many(contexts), strict=True):
        torch.testing.assert_close(state.session_state, encoder.encode(context).session_state)


def test_a_state_never_changes(model: HRED) -> None:
    encoder = ContextEncoder(model)
    state = encoder.encode(["w1"])
    before = state.session_state.clone()
    encoder.extend(state, "w2 w3")
    torch.testing.assert_close(state.session_state, before, rtol=0, atol=0)
    assert state.queries == ("w1",)


def test_extending_encodes_the_new_query_only(model: HRED) -> None:
    encoder = ContextEncoder(model)
    state = encoder.encode(["w1 w2", "w3"])
    read: list[int] = []
    encode = model.encode_queries

    def counting(words: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        read.append(len(words))
        return encode(words, lengths)

    model.encode_queries = counting  # type: ignore[method-assign]
    encoder.extend(state, "w4")
    assert read == [1]

"""Batches hold every session once, packed without padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextquery.text.batching import cut, epoch_batches, pack

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(LENGTHS)
def test_packing_holds_every_symbol_once_by_step(lengths: list[int]) -> None:
    packing = pack(np.array(lengths, dtype=np.int64))
    symbols = set(zip(packing.sequence.tolist(), packing.step.tolist(), strict=True))
    assert len(packing.sequence) == sum(lengths)
    assert symbols == {(s, step) for s, length in enumerate(lengths) for step in range(length)}
    assert packing.step.tolist() == sorted(packing.step.tolist())
    assert packing.sizes == sorted(packing.sizes, reverse=True)
    for sequence, length in enumerate(lengths):
        if length:
            last = packing.last[sequence]
            assert (packing.sequence[last], packing.step[last]) == (sequence, length - 1)


@given(st.lists(st.integers(2, 30), min_size=1, max_size=60), st.integers(1, 50))
def test_an_epoch_has_every_session_once(lengths: list[int], batch_words: int) -> None:
    sizes = np.array(lengths)
    batches = epoch_batches(sizes, sizes // 2, batch_words, np.random.default_rng(1), window=3)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert sizes[batch[:-1]].sum() < batch_words + sizes[batch[-1]]


def test_sessions_of_a_window_are_batched_by_length() -> None:
    lengths = np.array([9, 2, 9, 2, 9, 2])
    batches = epoch_batches(lengths, lengths, 9, np.random.default_rng(1))
    assert all(len(set(lengths[batch].tolist())) <= 2 for batch in batches)
    alike = list(cut(np.array([1, 3, 5, 0, 2, 4]), lengths, 6))
    assert next(batch.tolist() for batch in alike) == [1, 3, 5]

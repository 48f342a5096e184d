"""Vocabulary, sessions as flat arrays, and batches without padding."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import ArtifactError
from nextquery.records import Session
from nextquery.text.batching import cut, epoch_batches, pack
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import END_OF_QUERY, SPECIAL, UNKNOWN, Vocabulary


def test_a_query_comes_back_and_unknown_words_are_one_symbol() -> None:
    vocabulary = Vocabulary(["red", "shoes"])
    ids = vocabulary.encode("red suede shoes")
    assert ids == [3, UNKNOWN, 4, END_OF_QUERY]
    assert vocabulary.decode(ids) == "red <unk> shoes"
    assert vocabulary.decode([3, END_OF_QUERY, 4]) == "red", "nothing after the end"


def test_a_word_is_named_once() -> None:
    with pytest.raises(ArtifactError, match="names a word twice"):
        Vocabulary(["red", "red"])
    with pytest.raises(ArtifactError, match="names a word twice"):
        Vocabulary([SPECIAL[0]])


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    Vocabulary(["größe", "鞋"]).save(tmp_path / "words")
    assert Vocabulary.load(tmp_path / "words").words == (*SPECIAL, "größe", "鞋")
    (tmp_path / "words").write_bytes(b"\xff\n")
    with pytest.raises(ArtifactError, match="not a text in UTF-8"):
        Vocabulary.load(tmp_path / "words")


VOCABULARY = Vocabulary(["red", "shoes", "boots"])
RED, SHOES, BOOTS, END, OUTSIDE = 3, 4, 5, 1, 6


def encode(tmp_path: Path, *queries: str, limits: SessionLimits | None = None) -> EncodedSessions:
    sessions = [Session(7, "u", queries), Session(9, "v", ("red", "boots"))]
    return encode_sessions(sessions, VOCABULARY, limits or SessionLimits(20, 30), tmp_path)


def decoded(corpus: EncodedSessions) -> list[list[list[int]]]:
    return [
        [
            corpus.words[corpus.query_starts[query] : corpus.query_starts[query + 1]].tolist()
            for query in range(start, end)
        ]
        for start, end in zip(corpus.session_starts, corpus.session_ends, strict=True)
    ]


def test_words_outside_are_numbered_by_session(tmp_path: Path) -> None:
    corpus = encode(tmp_path, "red suede shoes", "suede blue", "blue blue")
    assert decoded(corpus) == [
        [[RED, OUTSIDE, SHOES, END], [OUTSIDE, OUTSIDE + 1, END], [OUTSIDE + 1, OUTSIDE + 1, END]],
        [[RED, END], [BOOTS, END]],
    ]
    assert corpus.ids.tolist() == [7, 9]
    assert corpus.word_counts().tolist() == [0, 5, 5, 2, 1, 1]
    assert corpus.lengths().tolist() == [10, 4]


def test_long_sessions_and_queries_are_cut(tmp_path: Path) -> None:
    corpus = encode(tmp_path, "red shoes boots", "red", "boots", limits=SessionLimits(2, 2))
    assert decoded(corpus)[:2] == [[[RED, SHOES, END], [RED, END]], [[BOOTS, END]]]
    assert corpus.ids.tolist() == [7, 7, 9]


def test_windows_end_in_every_query(tmp_path: Path) -> None:
    corpus = encode(tmp_path, "red", "shoes", "boots")
    red, shoes, boots = [RED, END], [SHOES, END], [BOOTS, END]
    assert decoded(corpus.windows(1)) == [[red], [red, shoes], [shoes, boots], [red], [red, boots]]
    assert decoded(corpus.windows(0))[:3] == [[red], [shoes], [boots]]


def test_a_sample_is_not_the_first_sessions_and_the_same_every_time(tmp_path: Path) -> None:
    corpus = encode(tmp_path, "red", "shoes", "boots").windows(1)
    drawn = [corpus.sample(2, seed).session_ends.tolist() for seed in range(20)]
    assert all(sorted(ends) == ends and len(set(ends)) == 2 for ends in drawn)
    assert len({tuple(ends) for ends in drawn}) > 3
    assert drawn[3] == corpus.sample(2, 3).session_ends.tolist()
    assert corpus.sample(0) is corpus
    assert corpus.sample(99) is corpus


def test_no_session_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no sessions"):
        encode_sessions([], VOCABULARY, SessionLimits(20, 30), tmp_path)


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

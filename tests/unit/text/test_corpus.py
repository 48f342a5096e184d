"""Sessions become flat arrays on disk and come back as they were."""

from pathlib import Path

import pytest

from nextquery.errors import ArtifactError
from nextquery.records import Session
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import Vocabulary

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
    assert decoded(corpus.windows(1)) == [
        [red],
        [red, shoes],
        [shoes, boots],
        [red],
        [red, boots],
    ]
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

"""The rules as records: flags follow the blocklist in force, pairs end with their owner."""

import gc
from pathlib import Path

import pytest

from nextquery.guard.guard import Guard
from nextquery.inference.kernels.library import Library, native_library
from nextquery.inference.kernels.native_rules import BLOCKED, DOUBTFUL, NEVER, RulesCache
from nextquery.inference.rules import VocabularyRules
from nextquery.inference.session_vocabulary import SessionVocabulary
from nextquery.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["bad", "phrase", "fine"])


@pytest.fixture
def library() -> Library:
    found = native_library()
    if found is None:
        pytest.skip("nextquery-native is not installed (scripts/native)")
    return found


def test_flags_follow_the_blocklist(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("nothing\n", encoding="utf-8")
    guard = Guard(blocklist=file)
    shared = VocabularyRules(guard, VOCABULARY)
    cache = RulesCache(library)
    own = SessionVocabulary(VOCABULARY, ["strange", "fine"])

    def flags() -> list[list[int]]:
        _, arrays = cache.of(shared).record([shared.for_context(["fine bad"], own)])
        return [arrays[0].tolist(), arrays[3].tolist()]

    assert flags() == [[NEVER, 0, NEVER, 0, 0, 0], [0]]
    file.write_text("bad\nsome phrase\nstrange\n", encoding="utf-8")
    assert guard.reload()
    words, outside = flags()
    assert words[3] & BLOCKED
    assert words[4] & DOUBTFUL
    assert not words[5]
    assert outside[0] & BLOCKED


def test_pairs_of_the_session_are_ids(library: Library) -> None:
    shared = VocabularyRules(Guard(), VOCABULARY)
    own = SessionVocabulary(VOCABULARY, ["strange"])
    rules = shared.for_context(["fine bad strange", "unheard bad"], own)
    _, arrays = RulesCache(library).of(shared).record([rules, rules])
    assert arrays[4].tolist() == [0, 2, 4]
    assert arrays[5].tolist() == [3 << 32 | 6, 5 << 32 | 3] * 2


def test_pairs_are_closed_with_the_rules(library: Library) -> None:
    cache = RulesCache(library)
    shared = VocabularyRules(Guard(), VOCABULARY)
    assert cache.of(shared) is cache.of(shared)
    del shared
    gc.collect()
    assert len(cache) == 0

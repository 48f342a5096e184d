"""The rules as records: flags follow the blocklist in force, pairs end with their owner."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import finalize

import pytest

from nextquery.guard.guard import Guard
from nextquery.inference import native_decoder
from nextquery.inference.context import SessionVocabulary
from nextquery.inference.native import Library, native_library
from nextquery.inference.native_decoder import (
    BLOCKED,
    DOUBTFUL,
    NEVER,
    NativeVocabularyRules,
    RulesCache,
)
from nextquery.inference.rules import VocabularyRules
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


@pytest.fixture
def closed(library: Library, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The addresses whose memory was freed, in order."""
    freed: list[int] = []
    close = library.pairs_close

    def recorded(pairs: int) -> None:
        freed.append(pairs)
        close(pairs)

    monkeypatch.setattr(library, "pairs_close", recorded)
    return freed


def test_first_searches_that_overlap_share_one_entry(
    library: Library, closed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both threads are held in the constructor until the other is there, or half a second."""
    both_there = threading.Barrier(2)

    class Slow(NativeVocabularyRules):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            with suppress(threading.BrokenBarrierError):
                both_there.wait(0.5)

    monkeypatch.setattr(native_decoder, "NativeVocabularyRules", Slow)
    cache, shared = RulesCache(library), VocabularyRules(Guard(), VOCABULARY)
    rules = shared.for_context(["fine bad"], SessionVocabulary(VOCABULARY, []))

    def search(_: int) -> tuple[Any, list[Any]]:
        return cache.of(shared).record([rules])

    with ThreadPoolExecutor(2) as threads:
        records = list(threads.map(search, range(2)))
    gc.collect()
    assert closed == []
    assert records[0][0].pairs == records[1][0].pairs
    assert len(cache) == 1


def test_a_record_keeps_its_pairs_without_the_cache(library: Library, closed: list[int]) -> None:
    shared = VocabularyRules(Guard(), VOCABULARY)
    rules = shared.for_context(["fine bad"], SessionVocabulary(VOCABULARY, []))
    record, kept = NativeVocabularyRules(library, shared).record([rules])
    gc.collect()
    assert closed == []
    pairs = record.pairs
    del record, kept
    gc.collect()
    assert closed == [pairs]


def test_pairs_are_not_closed_at_exit(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may still be searching then; the system takes the memory back."""
    made: list[Any] = []

    def recorded(*given: Any) -> Any:
        made.append(finalize(*given))
        return made[-1]

    monkeypatch.setattr(native_decoder, "finalize", recorded)
    rules = NativeVocabularyRules(library, VocabularyRules(Guard(), VOCABULARY))
    assert [each.atexit for each in made] == [False]
    assert rules.pairs


def test_flags_are_those_of_the_blocklist_asked_for_whatever_other_threads_ask(
    library: Library, tmp_path: Path
) -> None:
    """A search with the new blocklist begins whenever one with the old changes what is kept."""
    file = tmp_path / "list.txt"
    file.write_text("nothing\n", encoding="utf-8")
    guard = Guard(blocklist=file)
    shared = VocabularyRules(guard, VOCABULARY)
    own = SessionVocabulary(VOCABULARY, [])
    older = shared.for_context([], own)
    file.write_text("bad\n", encoding="utf-8")
    assert guard.reload()
    newer = shared.for_context([], own)
    flags: list[int] = []

    class Interrupted(NativeVocabularyRules):
        interrupting = False

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if self.interrupting:
                super().__setattr__("interrupting", False)
                flags.append(int(self.record([newer])[1][0][3]))
                super().__setattr__("interrupting", True)

    native = Interrupted(library, shared)
    native.record([newer])
    native.__dict__["interrupting"] = True
    flags.append(int(native.record([older])[1][0][3]))
    assert len(flags) > 1
    assert all(each & BLOCKED for each in flags[:-1])
    assert not flags[-1] & BLOCKED

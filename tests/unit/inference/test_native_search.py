"""The compiled search against NumPy's, and the guard's rules as it reads them."""

import gc
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import finalize, ref

import numpy as np
import pytest

from nextquery.guard.fingerprints import pair_keys, text_keys
from nextquery.guard.guard import Guard
from nextquery.inference import native_decoder
from nextquery.inference.context import SessionVocabulary
from nextquery.inference.decoder import Ended
from nextquery.inference.native import Library, address
from nextquery.inference.native_decoder import (
    BLOCKED,
    DOUBTFUL,
    NEVER,
    NativeDecoder,
    NativeSteps,
    NativeVocabularyRules,
    Workspace,
)
from nextquery.inference.rules import ContextRules, FollowerTable, VocabularyRules
from nextquery.inference.search import ArraySteps
from nextquery.inference.settings import DecodeConfig
from nextquery.model.hred import HRED
from nextquery.text.vocabulary import Vocabulary

from .conftest import ModelMaker, predictor_of, random_model
from .test_search import GUARDED, TABLES, started, with_words

CONFIG = DecodeConfig(beam=7, max_words=4)


def guard(tmp_path: Path, *, blocklist: bool) -> Guard:
    """Some pairs are common, many rare; some words and every fifth pair of words blocked."""
    if not blocklist:
        return Guard(TABLES)
    phrases = [f"w{i} w{j}" for i in range(40) for j in range(150) if (i + j) % 5 == 0]
    file = tmp_path / "list.txt"
    file.write_text("\n".join(["w3", "w4", "zeb", *phrases]), encoding="utf-8")
    return Guard(TABLES, blocklist=file)


def run_steps(steps: ArraySteps | NativeSteps) -> list[list[Ended]]:
    """The queries that end in each step; bounds drop some prefixes."""
    candidates = []
    while (ended := steps.next([-30.0, -12.0, -np.inf, -15.0])) is not None:
        candidates.append(sorted(Ended(c, tuple(words), total) for c, words, total in ended))
    return candidates


def both(model: HRED, checked: list[Guard], *, seen: bool, longer: bool) -> list[list[list[Ended]]]:
    """The steps of NumPy and of the kernels, each with its own guard."""
    searches = []
    for compiled, checks in zip((False, True), checked, strict=True):
        predictor = predictor_of(model, checks, compiled=compiled)
        start, decoder = started(predictor, GUARDED, seen=seen), predictor.decoder("exact")
        start = with_words(predictor, start) if longer else start
        steps = decoder.steps(start, CONFIG)
        assert (steps is None) != compiled
        searches.append(run_steps(steps or ArraySteps(decoder, start, CONFIG, None)))  # type: ignore[arg-type]
    return searches


def assert_same(expected: list[list[Ended]], actual_steps: list[list[Ended]]) -> None:
    assert sum(map(len, expected)) > 10
    assert len(actual_steps) == len(expected)
    for one, other in zip(expected, actual_steps, strict=True):
        assert [item[:2] for item in other] == [item[:2] for item in one]
        actual, desired = ([item.log_likelihood for item in some] for some in (other, one))
        np.testing.assert_allclose(actual, desired, rtol=1e-4, atol=1e-4)


CASES = [
    *((None, *case) for case in itertools.product([False, True], repeat=4)),
    ("avx2", True, True, True, False),
    ("avx2", False, True, True, True),
    ("baseline", True, True, True, False),
    ("baseline", False, True, True, True),
]
"""All cases with the best instruction set (None), two with the others."""


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(
    ("instructions", "seen", "copying", "blocklist", "longer"), CASES, indirect=["instructions"]
)
def test_the_steps_are_those_of_numpy(
    make_model: ModelMaker,
    tmp_path: Path,
    seen: bool,
    copying: bool,
    blocklist: bool,
    longer: bool,
) -> None:
    checked = [guard(tmp_path, blocklist=blocklist) for _ in range(2)]
    model = make_model(words=150, seed=2, copy=copying)
    assert_same(*both(model, checked, seen=seen, longer=longer))


@pytest.mark.usefixtures("library")
def test_the_memory_grows_for_extensions_that_do_not_fit(
    make_model: ModelMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacities = []
    grow = Workspace._grow

    def little(self: Workspace, capacity: int) -> None:
        capacities.append(capacity)
        grow(self, 3 if len(capacities) == 1 else capacity)

    monkeypatch.setattr(Workspace, "_grow", little)
    checked = [guard(tmp_path, blocklist=True) for _ in range(2)]
    assert_same(*both(make_model(words=150, seed=2, copy=True), checked, seen=False, longer=False))
    assert capacities[1:3] == [12, 48]


@pytest.mark.usefixtures("library")
def test_memory_is_reused_and_grows(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(words=150, copy=True))
    decoder = predictor.decoder("exact")
    assert isinstance(decoder, NativeDecoder)
    states = predictor.encoder.encode_many(GUARDED)
    config = DecodeConfig(specificity=0.0, beam=4, max_words=3)
    alone = [predictor.suggest_many([state], 4, config)[0] for state in states]
    assert len(decoder.workspaces) == 1
    wide = config.model_copy(update={"beam": 9, "max_words": 5})
    predictor.suggest_many(states, 9, wide)
    assert len(decoder.workspaces) == 1
    assert predictor.suggest_many(states, 4, config) == alone
    assert [predictor.suggest_many([state], 4, config)[0] for state in states] == alone


@pytest.mark.usefixtures("library")
def test_a_search_keeps_all_that_its_records_point_to(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(words=150, copy=True))
    start, decoder = started(predictor, GUARDED, seen=True), predictor.decoder("exact")
    assert isinstance(decoder, NativeDecoder)
    steps = decoder.steps(start, CONFIG)
    rules = decoder.rules_of(start.rules[0].shared)
    owners: list[ref[Any]] = [ref(start.state.batch), ref(decoder.packed), ref(rules)]
    del predictor, start, decoder, rules
    gc.collect()
    assert None not in [owner() for owner in owners]
    run_steps(steps)
    del steps
    gc.collect()
    assert [owner() for owner in owners] == [None] * 3


VOCABULARY = Vocabulary(["bad", "phrase", "fine"])


def test_flags_follow_the_blocklist(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("nothing\n", encoding="utf-8")
    guard = Guard(blocklist=file)
    shared = VocabularyRules(guard, VOCABULARY)
    native = NativeVocabularyRules(library, shared)
    typed = SessionVocabulary(VOCABULARY, ["strange", "fine"])

    def flags() -> list[list[int]]:
        _, arrays = native.record([ContextRules(shared, ["fine bad"], typed)])
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
    typed = SessionVocabulary(VOCABULARY, ["strange"])
    rules = ContextRules(shared, ["fine bad strange", "unheard bad"], typed)
    _, arrays = NativeVocabularyRules(library, shared).record([rules, rules])
    assert arrays[4].tolist() == [0, 2, 4]
    assert arrays[5].tolist() == [3 << 32 | 6, 5 << 32 | 3] * 2


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


def compiled_decoder() -> NativeDecoder:
    decoder = predictor_of(random_model()).decoder("exact")
    assert isinstance(decoder, NativeDecoder)
    return decoder


def test_pairs_are_closed_with_the_rules(closed: list[int]) -> None:
    decoder, shared = compiled_decoder(), VocabularyRules(Guard(), VOCABULARY)
    pairs = decoder.rules_of(shared).pairs
    assert decoder.rules_of(shared).pairs == pairs
    del shared
    gc.collect()
    assert closed == [pairs]


def test_first_searches_that_overlap_share_one_entry(
    closed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both threads are held in the constructor until the other is there, or half a second."""
    both_there = threading.Barrier(2)

    class Slow(NativeVocabularyRules):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            with suppress(threading.BrokenBarrierError):
                both_there.wait(0.5)

    monkeypatch.setattr(native_decoder, "NativeVocabularyRules", Slow)
    decoder, shared = compiled_decoder(), VocabularyRules(Guard(), VOCABULARY)
    rules = ContextRules(shared, ["fine bad"], SessionVocabulary(VOCABULARY, []))

    def search(_: int) -> tuple[Any, list[Any]]:
        return decoder.rules_of(shared).record([rules])

    with ThreadPoolExecutor(2) as threads:
        records = list(threads.map(search, range(2)))
    gc.collect()
    assert closed == []
    assert records[0][0].pairs == records[1][0].pairs


def test_a_record_keeps_its_pairs_without_the_cache(library: Library, closed: list[int]) -> None:
    shared = VocabularyRules(Guard(), VOCABULARY)
    rules = ContextRules(shared, ["fine bad"], SessionVocabulary(VOCABULARY, []))
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

    def recorded(*arguments: Any) -> Any:
        made.append(finalize(*arguments))
        return made[-1]

    monkeypatch.setattr(native_decoder, "finalize", recorded)
    rules = NativeVocabularyRules(library, VocabularyRules(Guard(), VOCABULARY))
    assert [finalizer.atexit for finalizer in made] == [False]
    assert rules.pairs


def test_flags_are_those_of_the_blocklist_asked_for_whatever_other_threads_ask(
    library: Library, tmp_path: Path
) -> None:
    """A search with the new blocklist begins whenever one with the old changes what is kept."""
    file = tmp_path / "list.txt"
    file.write_text("nothing\n", encoding="utf-8")
    guard = Guard(blocklist=file)
    shared = VocabularyRules(guard, VOCABULARY)
    typed = SessionVocabulary(VOCABULARY, [])
    older = ContextRules(shared, [], typed)
    file.write_text("bad\n", encoding="utf-8")
    assert guard.reload()
    newer = ContextRules(shared, [], typed)
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
    assert all(flag & BLOCKED for flag in flags[:-1])
    assert not flags[-1] & BLOCKED


WORDS = [f"w{number}" for number in range(700)]
KEYS = text_keys(WORDS, b"secret")


def table(share: float) -> tuple[FollowerTable, np.ndarray]:
    """Pairs drawn at random, and which they are."""
    seen = np.random.default_rng(3).random((len(WORDS), len(WORDS))) < share
    keys = pair_keys(KEYS[:, None], KEYS[None, :])[seen]
    return FollowerTable(KEYS, np.sort(keys)), seen


@pytest.mark.parametrize("share", [0.0, 0.001, 0.2])
def test_the_followers_of_a_word_are_those_it_was_seen_with(share: float) -> None:
    followers, seen = table(share)
    for word in (0, 5, 699):
        np.testing.assert_array_equal(followers.of(word), np.flatnonzero(seen[word]))
        assert followers.of(word) is followers.of(word)


@pytest.mark.parametrize("instructions", [None, "avx2", "baseline"], indirect=True)
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_kernels_find_the_same_followers(share: float, instructions: Library) -> None:
    library = instructions
    followers, _ = table(share)
    common = followers.common
    pairs = library.pairs_open(address(KEYS), len(KEYS), address(common), len(common))
    try:
        for word in range(0, 700, 7):
            listed = library.followers(pairs, word)
            assert listed[1 : listed[0] + 1] == followers.of(word).tolist()
    finally:
        library.pairs_close(pairs)

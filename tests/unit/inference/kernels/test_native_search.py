"""A search of compiled steps against NumPy's, for every instruction set and all kinds of rules."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

from nextquery.guard.fingerprints import RareSet
from nextquery.guard.guard import Guard
from nextquery.guard.tables import Tables
from nextquery.inference.context import ContextBatch
from nextquery.inference.decoder import Ended, SearchStart
from nextquery.inference.native import Library, native_library
from nextquery.inference.native_decoder import NativeDecoder, NativeSteps, Workspace
from nextquery.inference.predictor import Predictor
from nextquery.inference.rules import LivePrefixes, VocabularyRules
from nextquery.inference.search import ArraySteps
from nextquery.inference.settings import DecodeConfig
from nextquery.model.hred import HRED

from ..conftest import ModelMaker, predictor_of
from ..test_extensions import CONTEXTS, some_pairs

CONFIG = DecodeConfig(beam=7, max_words=4)


@pytest.fixture(params=["avx512", "avx2", "baseline"])
def kernels(request: pytest.FixtureRequest) -> Iterator[Library]:
    found = native_library()
    if found is None:
        pytest.skip("nextquery-native is not installed (scripts/native)")
    if not found.use(request.param):
        pytest.skip(f"this processor has no {request.param}")
    yield found
    found.use(None)


def guard(tmp_path: Path, *, blocklist: bool) -> Guard:
    """Some pairs are common, many rare; some words and every fifth pair of words blocked."""
    tables = Tables(
        min_users=2,
        common_pairs=some_pairs(0.1, 1),
        rare_pairs=RareSet.build(some_pairs(0.4, 2)),
    )
    if not blocklist:
        return Guard(tables)
    phrases = [f"w{i} w{j}" for i in range(40) for j in range(150) if (i + j) % 5 == 0]
    file = tmp_path / "list.txt"
    file.write_text("\n".join(["w3", "w4", "zeb", *phrases]), encoding="utf-8")
    return Guard(tables, blocklist=file)


def started(predictor: Predictor, *, seen: bool, longer: bool) -> SearchStart:
    """The empty prefix of each context, or four prefixes of one word."""
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many(CONTEXTS))
    shared = VocabularyRules(predictor.guard, predictor.model.vocabulary)
    rules = [
        shared.for_context(queries, own, seen_pairs=seen)
        for queries, own in zip(CONTEXTS, batch.vocabularies, strict=True)
    ]
    decoder = predictor.decoder("exact")
    prefixes = decoder.start(batch)
    if not longer:
        return SearchStart(rules, prefixes, LivePrefixes.start(4))
    parents, words = np.arange(4).repeat(4), 3 + np.arange(16) * 5
    words[1] = len(predictor.model.vocabulary) if predictor.model.copies else 50
    live = LivePrefixes(words[:, None], -np.arange(16.0) % 4, parents)
    return SearchStart(rules, decoder.advance(prefixes, parents, words), live)


def walked(steps: ArraySteps | NativeSteps) -> list[list[Ended]]:
    """What ends in each step; some prefixes are given up on the way."""
    found = []
    while (ended := steps.next([-30.0, -12.0, -np.inf, -15.0])) is not None:
        found.append(sorted(Ended(c, tuple(words), total) for c, words, total in ended))
    return found


def both(model: HRED, checked: list[Guard], *, seen: bool, longer: bool) -> list[list[list[Ended]]]:
    """The steps of NumPy and of the kernels, each with its own guard."""
    found = []
    for compiled, mine in zip((False, True), checked, strict=True):
        predictor = predictor_of(model, mine, compiled=compiled)
        start, decoder = started(predictor, seen=seen, longer=longer), predictor.decoder("exact")
        steps = decoder.steps(start, CONFIG)
        assert (steps is None) != compiled
        found.append(walked(steps or ArraySteps(decoder, start, CONFIG, None)))  # type: ignore[arg-type]
    return found


def assert_same(expected: list[list[Ended]], found: list[list[Ended]]) -> None:
    assert sum(map(len, expected)) > 10
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        assert [each[:2] for each in other] == [each[:2] for each in one]
        actual, desired = ([each.log_likelihood for each in some] for some in (other, one))
        np.testing.assert_allclose(actual, desired, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("longer", [False, True])
@pytest.mark.parametrize("blocklist", [False, True])
@pytest.mark.parametrize("copying", [False, True])
@pytest.mark.parametrize("seen", [False, True])
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


def test_extensions_may_be_more_than_there_is_room_for(
    make_model: ModelMaker, kernels: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = []
    make_room = Workspace._make_room

    def little(self: Workspace, room: int) -> None:
        rooms.append(room)
        make_room(self, 3 if len(rooms) == 1 else room)

    monkeypatch.setattr(Workspace, "_make_room", little)
    checked = [guard(tmp_path, blocklist=True) for _ in range(2)]
    assert_same(*both(make_model(words=150, seed=2, copy=True), checked, seen=False, longer=False))
    assert rooms[1:3] == [12, 48]


def test_memory_is_used_again_and_grows(make_model: ModelMaker, kernels: Library) -> None:
    predictor = predictor_of(make_model(words=150, copy=True))
    decoder = predictor.decoder("exact")
    assert isinstance(decoder, NativeDecoder)
    states = predictor.encoder.encode_many(CONTEXTS)
    config = DecodeConfig(specificity=0.0, beam=4, max_words=3)
    alone = [predictor.suggest_many([state], 4, config)[0] for state in states]
    assert len(decoder.workspaces) == 1
    wide = config.model_copy(update={"beam": 9, "max_words": 5})
    predictor.suggest_many(states, 9, wide)
    assert len(decoder.workspaces) == 1
    assert predictor.suggest_many(states, 4, config) == alone
    assert [predictor.suggest_many([state], 4, config)[0] for state in states] == alone


@pytest.mark.usefixtures("kernels")
def test_a_search_keeps_all_that_its_records_point_to(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(words=150, copy=True))
    start, decoder = started(predictor, seen=True, longer=False), predictor.decoder("exact")
    assert isinstance(decoder, NativeDecoder)
    steps = decoder.steps(start, CONFIG)
    rules = decoder._rules.of(start.rules[0].shared)
    owners: list[ref[Any]] = [ref(start.state.batch), ref(decoder.packed), ref(rules)]
    del predictor, start, decoder, rules
    gc.collect()
    assert None not in [owner() for owner in owners]
    walked(steps)
    del steps
    gc.collect()
    assert [owner() for owner in owners] == [None] * 3

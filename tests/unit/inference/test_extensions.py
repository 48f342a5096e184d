"""Allowed extensions: cut by the beam, and the same from NumPy and from the compiled kernels."""

from pathlib import Path

import numpy as np
import pytest

from nextquery.guard.fingerprints import RareSet, pair_keys, text_keys
from nextquery.guard.guard import Guard
from nextquery.guard.guard_tables import Tables
from nextquery.inference.extensions import Extensions, LivePrefixes
from nextquery.inference.kernels.library import native_library
from nextquery.inference.network.batch import ContextBatch
from nextquery.inference.rules import VocabularyRules
from nextquery.text.vocabulary import END_OF_QUERY

from .conftest import ModelMaker, predictor_of

CONTEXTS = [["w1 w2 zebra", "w1 gnu"], [], ["w5 w6 w5 w7 yak w8"], ["w9"]]
WORDS = [f"w{number}" for number in range(150)] + ["zebra", "gnu", "yak"]


def some_pairs(share: float, seed: int) -> np.ndarray:
    keys = text_keys(WORDS, b"")
    chosen = np.random.default_rng(seed).random((len(keys), len(keys))) < share
    return np.sort(pair_keys(keys[:, None], keys[None, :])[chosen])


def guard(tmp_path: Path, *, blocklist: bool) -> Guard:
    """Some pairs are common, many rare, some words and a phrase blocked."""
    tables = Tables(
        min_users=2,
        common_pairs=some_pairs(0.1, 1),
        rare_pairs=RareSet.build(some_pairs(0.4, 2)),
    )
    if not blocklist:
        return Guard(tables)
    file = tmp_path / "list.txt"
    file.write_text("w3\nw4\nw8 w1\nzeb\n", encoding="utf-8")
    return Guard(tables, blocklist=file)


def extended(
    make_model: ModelMaker, checked: Guard, *, compiled: bool, seen: bool, copying: bool, mode: str
) -> list[Extensions]:
    """The first word of each context, and the next of four prefixes of each."""
    predictor = predictor_of(make_model(words=150, copy=copying), checked, compiled=compiled)
    batch = ContextBatch(predictor.model, predictor.encoder.encode_many(CONTEXTS))
    shared = VocabularyRules(checked, predictor.model.vocabulary)
    rules = [
        shared.for_context(queries, own, seen_pairs=seen)
        for queries, own in zip(CONTEXTS, batch.own, strict=True)
    ]
    decoder = predictor.decoder(mode)  # type: ignore[arg-type]
    prefixes, live = decoder.start(batch), LivePrefixes.start(4)
    first = decoder.predict(batch, prefixes).extend(live, 12, rules)
    parents = np.arange(4).repeat(4)
    words = 3 + np.arange(16) * 5
    words[1] = 153 if copying else 50  # zebra
    longer = LivePrefixes(words[:, None], -np.arange(16.0) % 4, parents)
    prefixes = decoder.advance(batch, prefixes, parents, words)
    return [first, decoder.predict(batch, prefixes).extend(longer, 12, rules)]


@pytest.mark.parametrize("instructions", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("blocklist", [False, True])
@pytest.mark.parametrize("copying", [False, True])
@pytest.mark.parametrize("seen", [False, True])
def test_the_kernels_extend_as_numpy_does(
    make_model: ModelMaker,
    tmp_path: Path,
    seen: bool,
    copying: bool,
    blocklist: bool,
    instructions: str,
) -> None:
    library = native_library()
    if library is None or not library.use(instructions):
        pytest.skip(f"no {instructions} here")
    made = {}
    try:
        for compiled in (False, True):
            checked = guard(tmp_path, blocklist=blocklist)
            made[compiled] = extended(
                make_model, checked, compiled=compiled, seen=seen, copying=copying, mode="exact"
            )
    finally:
        library.use(None)
    for expected, found in zip(made[False], made[True], strict=True):
        assert found.doubtful is not None
        certain = ~found.doubtful
        if not blocklist:
            assert certain.all()
        for context in range(4):
            here = slice(expected.first[context], expected.first[context + 1])
            there = slice(found.first[context], found.first[context + 1])
            listed = list(zip(expected.rows[here], expected.words[here], strict=True))
            pairs = list(zip(found.rows[there], found.words[there], strict=True))
            sure = [pair for pair, one in zip(pairs, certain[there], strict=True) if one]
            # The kernels leave to the caller whether a phrase is blocked.
            assert set(listed) <= set(pairs)
            kept = [pair for pair in listed if pair in sure]
            assert kept == sure[: len(kept)]
            if not blocklist:
                assert listed == pairs
                np.testing.assert_allclose(
                    found.totals[there], expected.totals[here], rtol=1e-4, atol=1e-4
                )


@pytest.mark.parametrize("seen", [False, True])
def test_no_more_go_on_than_the_beam_holds(
    make_model: ModelMaker, tmp_path: Path, compiled: bool, seen: bool
) -> None:
    checked = guard(tmp_path, blocklist=False)
    for found in extended(
        make_model, checked, compiled=compiled, seen=seen, copying=True, mode="fast"
    ):
        for context in range(4):
            words = found.words[found.first[context] : found.first[context + 1]]
            going = np.flatnonzero(words != END_OF_QUERY)
            assert 0 < len(going) <= 12
            if len(going) == 12:
                assert going[-1] == len(words) - 1


def test_extensions_of_some_contexts_stand_one_behind_the_other() -> None:
    part = (np.array([0, 1]), np.array([5, 1]), np.array([-1.0, -2.0]))
    joined = Extensions.joined(3, [(1, part)])
    assert joined.first.tolist() == [0, 0, 2, 2]
    assert joined.words.tolist() == [5, 1]
    assert Extensions.joined(1, []).totals.dtype == np.float64

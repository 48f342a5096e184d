"""The compiled library: loading, packing, threads, and its decoder against NumPy's."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.inference import native
from nextquery.inference.context import ContextBatch
from nextquery.inference.decoder import Prediction
from nextquery.inference.hred_network import DecoderState
from nextquery.inference.native import Library, address, load_native, native_library
from nextquery.inference.native_decoder import CompiledDecoder, NativeDecoder
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig, Mode
from nextquery.inference.weights import Floats

from .conftest import FORMS, ModelMaker, predictor_of, random_model


@pytest.mark.parametrize("rows", [1, 16, 37])
def test_a_packed_matrix_has_panels_of_sixteen_rows(library: Library, rows: int) -> None:
    matrix = np.random.default_rng(1).standard_normal((rows, 5)).astype(np.float32)
    packed = library.packed(matrix, 48).reshape(3, 5, 16)
    np.testing.assert_array_equal(packed.transpose(0, 2, 1).reshape(48, 5)[:rows], matrix)
    assert not packed.transpose(0, 2, 1).reshape(48, 5)[rows:].any()


@pytest.mark.parametrize("inputs", [4, 7])
def test_eight_bits_are_within_half_a_step(library: Library, inputs: int) -> None:
    matrix = np.random.default_rng(1).standard_normal((21, inputs)).astype(np.float32)
    packed, scale, sums = library.packed_8(matrix, 64)
    groups = -(-inputs // 4)
    lanes = 16 if library.instructions() == b"avx512" else 8
    panels = packed.reshape(64 // lanes, groups, lanes, 4)
    whole = panels.transpose(0, 2, 1, 3).reshape(64, groups * 4)
    np.testing.assert_allclose(whole[:21, :inputs] * scale[:21, None], matrix, atol=scale.max() / 2)
    np.testing.assert_array_equal(whole.sum(axis=1), sums)
    assert not whole[21:].any()
    assert not whole[:, inputs:].any()


def test_the_kernels_of_this_cpu_are_named(library: Library) -> None:
    assert library.instructions() in (b"avx512", b"avx2", b"baseline")
    assert library.use("baseline")
    try:
        assert library.instructions() == b"baseline"
        assert not library.use("mmx")
        assert library.instructions() == b"baseline"
    finally:
        library.use(None)


@pytest.fixture
def threaded(library: Library) -> Iterator[Library]:
    library.use_threads(3)
    yield library
    library.use_threads(1)


LARGE = (20, 1100, 1000)
"""Rows, outputs and inputs of a product that threads share."""


def large_product(library: Library) -> Floats:
    rows, outputs, inputs = LARGE
    numbers = np.random.default_rng(1)
    matrix = library.packed(numbers.standard_normal((outputs, inputs)).astype(np.float32))
    left = numbers.standard_normal((rows, inputs)).astype(np.float32)
    product = np.zeros((rows, outputs), dtype=np.float32)
    library.product(address(left), rows, address(matrix), outputs, inputs, None, address(product))
    return product


def test_threads_change_no_number(threaded: Library) -> None:
    together = large_product(threaded)
    assert threads_of_this_process() >= 3
    threaded.use_threads(1)
    np.testing.assert_array_equal(together, large_product(threaded))


def threads_of_this_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_several_callers_share_the_threads(threaded: Library) -> None:
    expected = large_product(threaded)
    with ThreadPoolExecutor(4) as callers:
        for product in callers.map(lambda _: large_product(threaded), range(24)):
            np.testing.assert_array_equal(product, expected)


@pytest.mark.slow
def test_a_fork_has_threads_of_its_own(threaded: Library) -> None:
    program = """
import os, sys, warnings
sys.path.insert(0, sys.argv[1])
from tests.unit.inference.test_native import large_product, threads_of_this_process
from nextquery.inference.native import native_library
warnings.simplefilter("ignore")  # a fork of a process with threads is what is tested
library = native_library()
library.use_threads(3)
expected = large_product(library)
child = os.fork()
if child == 0:
    same = (large_product(library) == expected).all()
    os._exit(0 if same and threads_of_this_process() >= 3 else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    root = Path(__file__).parents[3]
    ended = subprocess.run([sys.executable, "-c", program, str(root)], timeout=120, check=False)
    assert ended.returncode == 0


@pytest.mark.parametrize(("text", "expected"), [("3", 3), ("2,4", 2), ("", None), ("many", None)])
def test_the_number_of_threads_is_that_of_openmp(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: int | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert native.usual_threads() == (expected or len(os.sched_getaffinity(0)))


@pytest.fixture
def old_library(tmp_path: Path) -> str:
    """A library of an earlier version: another ABI number and none of the functions."""
    compiler = shutil.which("cc") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C compiler")
    source, target = tmp_path / "old.c", tmp_path / "old.so"
    source.write_text("long long nextquery_abi(void) { return 5; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    return str(target)


@pytest.fixture
def reloading() -> Iterator[None]:
    load_native.cache_clear()
    yield
    load_native.cache_clear()


def installed(path: str) -> SimpleNamespace:
    return SimpleNamespace(library_path=lambda: path)


@pytest.mark.usefixtures("reloading")
def test_a_library_of_another_version_is_not_used(
    monkeypatch: pytest.MonkeyPatch, old_library: str
) -> None:
    monkeypatch.setattr("nextquery.errors.EXTRAS", {})  # importing all of them takes long
    monkeypatch.setitem(sys.modules, "nextquery_native", installed(old_library))
    assert native_library() is None
    assert f"its ABI number is 5, this version of nextquery needs {native.ABI}" in (
        load_native().problem
    )
    printed = CliRunner().invoke(app, ["doctor"]).stdout
    assert printed.count("its ABI number is 5") == 1
    model = predictor_of(random_model())
    assert model.suggest_many([model.encoder.encode(["w1"])], 3, DecodeConfig())[0]


@pytest.mark.usefixtures("reloading")
@pytest.mark.parametrize(
    ("module", "problem"),
    [(None, "not installed"), (installed("/nowhere/kernels.so"), "cannot be used")],
    ids=["missing", "broken"],
)
def test_without_a_library_numpy_computes(
    monkeypatch: pytest.MonkeyPatch, module: SimpleNamespace | None, problem: str
) -> None:
    monkeypatch.setitem(sys.modules, "nextquery_native", module)
    assert native_library() is None
    assert problem in load_native().problem


def test_not_compiled_means_numpy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the compiled library was opened")

    monkeypatch.setattr(native, "load_native", refuse)
    predictor = predictor_of(random_model(copy=True, usefulness=True), compiled=False)
    state = predictor.encoder.extend(predictor.encoder.encode(["w1", "w2 w3"]), "w4")
    assert predictor.suggest_many([state], 3, DecodeConfig(usefulness=1.0))[0]
    assert predictor.complete(state, "w", 3, DecodeConfig())
    assert predictor.score_many([state], [["w5"]])[0]


CONTEXTS = [["w1 w2 zebra", "w1 gnu"], [], ["w5 w6 w5 w7 yak w8"], ["w9"]]
MORE_FORMS: dict[str, dict[str, Any]] = {
    **FORMS,
    "unfactored": {"factored": False, "copy": True},
    "tied": {"tied": True, "zero_step": True, "start_query": True},
    "odd sizes": {"embedding_size": 13, "query_size": 19, "session_size": 7, "copy": True},
}


SETS_AND_FORMS = [
    *((None, form) for form in MORE_FORMS),
    *((name, form) for name in ("avx2", "baseline") for form in ("all-copying", "odd sizes")),
]
"""Every form with the best instruction set (None), two forms with the others."""


def stepped(predictor: Predictor, mode: Mode, prefixes: int) -> tuple[DecoderState, Prediction]:
    """Prefixes of one word, some of each context, and what comes next."""
    decoder = predictor.decoder(mode)
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many(CONTEXTS))
    rows = np.arange(len(CONTEXTS)).repeat(prefixes)
    words = 3 + np.arange(len(rows)) % 37
    words[-1] = len(predictor.model.vocabulary)  # a word of the session outside the vocabulary
    state = decoder.advance(decoder.start(batch), rows, words)
    return state, decoder.predict(state)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("instructions", "form"), SETS_AND_FORMS, indirect=["instructions"])
def test_a_step_is_that_of_numpy(make_model: ModelMaker, form: str) -> None:
    model = make_model(words=150, **MORE_FORMS[form])
    for prefixes in (1, 2, 5):
        assert_same_step(predictor_of(model), predictor_of(model, compiled=False), prefixes)


def assert_same_step(native: Predictor, arrays: Predictor, prefixes: int) -> None:
    state, prediction = stepped(native, "exact", prefixes)
    expected, reference = stepped(arrays, "exact", prefixes)
    np.testing.assert_allclose(state.hidden, expected.hidden, rtol=1e-4, atol=1e-5)
    assert state.previous is not None
    assert expected.previous is not None
    np.testing.assert_allclose(state.previous, expected.previous, rtol=1e-4, atol=1e-5)
    words = np.tile(np.arange(1, 150), (len(state), 1))
    np.testing.assert_allclose(prediction.of(words), reference.of(words), rtol=1e-4, atol=1e-4)
    before = -np.arange(float(prefixes))
    for first in range(0, len(state), prefixes):
        rows = slice(first, first + prefixes)
        for count in (1, 7, 1000):
            best, other = (p.best(rows, before, count) for p in (prediction, reference))
            np.testing.assert_array_equal(best.words, other.words)
            np.testing.assert_array_equal(best.rows, other.rows)
            np.testing.assert_allclose(best.totals, other.totals, rtol=1e-4, atol=1e-4)
            assert best.rest == pytest.approx(other.rest, abs=1e-4)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("instructions", "form"), SETS_AND_FORMS, indirect=["instructions"])
def test_fast_mode_scores_nearly_the_same(make_model: ModelMaker, form: str) -> None:
    model = make_model(words=150, **MORE_FORMS[form])
    predictor = predictor_of(model)
    _, fast = stepped(predictor, "fast", 3)
    _, exact = stepped(predictor, "exact", 3)
    words = np.tile(np.arange(1, 150), (12, 1))
    np.testing.assert_allclose(fast.of(words), exact.of(words), rtol=0, atol=0.03)
    assert not np.array_equal(fast.of(words), exact.of(words)), "the modes differ"
    best, other = (p.best(slice(0, 3), np.zeros(3), 12) for p in (fast, exact))
    for one, two in ((best, other), (other, best)):
        listed = set(zip(one.rows.tolist(), one.words.tolist(), strict=True))
        nearly = two.totals[:10] > two.totals[9] + 0.05  # beyond what rounding can turn around
        sure = zip(two.rows[:10][nearly].tolist(), two.words[:10][nearly].tolist(), strict=True)
        assert set(sure) <= listed


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("form", MORE_FORMS)
def test_the_lists_are_those_of_numpy(make_model: ModelMaker, form: str) -> None:
    model = make_model(words=90, **MORE_FORMS[form])
    lists = []
    for compiled in (True, False):
        predictor = predictor_of(model, compiled=compiled)
        states = predictor.encoder.encode_many(CONTEXTS)
        results = predictor.suggest_many(states, 8, DecodeConfig(max_words=4))
        results.append(predictor.complete(states[0], "w1", 8, DecodeConfig(known="free")))
        lists.append([[query.text for query in some] for some in results])
        assert isinstance(predictor.decoder("exact"), CompiledDecoder) == compiled
    assert lists[0] == lists[1]


@pytest.mark.usefixtures("library")
def test_a_row_alone_has_the_numbers_it_has_in_a_batch(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(words=150))
    decoder = predictor.decoder("exact")
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many([["w1 w2"]]))
    rows, words = np.zeros(11, dtype=np.int64), np.arange(3, 14)
    together = decoder.advance(decoder.start(batch), rows, words)
    every = np.arange(1, 150)[None]
    scores = decoder.predict(together).of(np.repeat(every, 11, axis=0))
    for row in range(11):
        alone = decoder.advance(decoder.start(batch), rows[:1], words[row : row + 1])
        np.testing.assert_array_equal(alone.hidden[0], together.hidden[row])
        np.testing.assert_array_equal(decoder.predict(alone).of(every)[0], scores[row])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("sizes", [(9000, 512, 16), (200, 12, 1500)], ids=["words", "states"])
def test_a_step_that_threads_share_has_the_same_numbers(
    make_model: ModelMaker, library: Library, mode: Mode, sizes: tuple[int, int, int]
) -> None:
    words, embedding, query = sizes
    model = make_model(words=words, embedding_size=embedding, query_size=query)
    predictor = predictor_of(model)
    decoder = predictor.decoder(mode)
    batch = ContextBatch(predictor.model.vocabulary, predictor.encoder.encode_many([["w1 w2"]]))
    last = np.arange(3, 43)
    rows, asked = np.zeros(len(last), dtype=np.int64), np.arange(5, 15)[None].repeat(40, axis=0)
    numbers = []
    for threads in (1, 3):
        library.use_threads(threads)
        prefixes = decoder.advance(decoder.start(batch), rows, last)
        prefixes = decoder.advance(prefixes, np.arange(40), last[::-1].copy())
        prediction = decoder.predict(prefixes)
        best = prediction.best(slice(0, 40), np.zeros(40), 40)
        numbers.append((prefixes.hidden, prediction.of(asked), best.words, best.totals))
    library.use_threads(1)
    for one, three in zip(*numbers, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.usefixtures("library")
def test_a_buffer_is_reused_only_when_its_prediction_is_gone(make_model: ModelMaker) -> None:
    predictor = predictor_of(make_model(words=150))
    decoder = predictor.decoder("exact")
    assert isinstance(decoder, NativeDecoder)
    batch = ContextBatch(
        predictor.model.vocabulary, predictor.encoder.encode_many([["w1 w2"], ["w3"]])
    )
    start = decoder.start(batch)
    words = np.tile(np.arange(1, 150), (2, 1))
    kept = decoder.predict(start)
    expected = kept.of(words)
    other = decoder.advance(start, np.array([0, 1]), np.array([5, 6]))
    decoder.predict(other)
    np.testing.assert_array_equal(kept.of(words), expected)
    assert len(decoder.buffers) == 1

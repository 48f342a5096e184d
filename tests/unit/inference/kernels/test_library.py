"""The compiled kernels by themselves: packing, and what happens where they are missing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.inference import native
from nextquery.inference.native import Library, address, aligned, load_native, native_library
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.weights import Floats

from ..conftest import predictor_of, random_model


@pytest.fixture
def kernels() -> Library:
    found = native_library()
    if found is None:
        pytest.skip("nextquery-native is not installed (scripts/native)")
    return found


@pytest.mark.parametrize("rows", [1, 16, 37])
def test_a_packed_matrix_has_panels_of_sixteen_rows(kernels: Library, rows: int) -> None:
    matrix = np.random.default_rng(1).standard_normal((rows, 5)).astype(np.float32)
    packed = kernels.packed(matrix, 48).reshape(3, 5, 16)
    np.testing.assert_array_equal(packed.transpose(0, 2, 1).reshape(48, 5)[:rows], matrix)
    assert not packed.transpose(0, 2, 1).reshape(48, 5)[rows:].any()


@pytest.mark.parametrize("inputs", [4, 7])
def test_eight_bits_are_within_half_a_step(kernels: Library, inputs: int) -> None:
    matrix = np.random.default_rng(1).standard_normal((21, inputs)).astype(np.float32)
    packed, scale, sums = kernels.packed_8(matrix, 64)
    groups = -(-inputs // 4)
    lanes = 16 if kernels.instructions() == b"avx512" else 8
    panels = packed.reshape(64 // lanes, groups, lanes, 4)
    whole = panels.transpose(0, 2, 1, 3).reshape(64, groups * 4)
    np.testing.assert_allclose(whole[:21, :inputs] * scale[:21, None], matrix, atol=scale.max() / 2)
    np.testing.assert_array_equal(whole.sum(axis=1), sums)
    assert not whole[21:].any()
    assert not whole[:, inputs:].any()


@pytest.mark.parametrize("size", [1, 1000])
def test_memory_begins_at_a_cache_line(size: int) -> None:
    array = aligned(size, np.float32)
    assert len(array) == size
    assert address(array) % 64 == 0


def test_the_kernels_of_this_processor_are_named(kernels: Library) -> None:
    assert kernels.instructions() in (b"avx512", b"avx2", b"baseline")
    assert kernels.use("baseline")
    try:
        assert kernels.instructions() == b"baseline"
        assert not kernels.use("mmx")
        assert kernels.instructions() == b"baseline"
    finally:
        kernels.use(None)


@pytest.fixture
def threaded(kernels: Library) -> Iterator[Library]:
    kernels.use_threads(3)
    yield kernels
    kernels.use_threads(1)


LARGE = (20, 1100, 1000)
"""Rows, outputs and inputs of a product that threads share."""


def large_product(kernels: Library) -> Floats:
    rows, outputs, inputs = LARGE
    numbers = np.random.default_rng(1)
    matrix = kernels.packed(numbers.standard_normal((outputs, inputs)).astype(np.float32))
    left = numbers.standard_normal((rows, inputs)).astype(np.float32)
    found = np.zeros((rows, outputs), dtype=np.float32)
    kernels.product(address(left), rows, address(matrix), outputs, inputs, None, address(found))
    return found


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
        for found in callers.map(lambda _: large_product(threaded), range(24)):
            np.testing.assert_array_equal(found, expected)


def test_a_fork_has_threads_of_its_own(threaded: Library) -> None:
    program = """
import os, sys, warnings
sys.path.insert(0, sys.argv[1])
from tests.unit.inference.kernels.test_library import large_product, threads_of_this_process
from nextquery.inference.native import native_library
warnings.simplefilter("ignore")  # of forks beside threads: that is what is tried
kernels = native_library()
kernels.use_threads(3)
expected = large_product(kernels)
child = os.fork()
if child == 0:
    same = (large_product(kernels) == expected).all()
    os._exit(0 if same and threads_of_this_process() >= 3 else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    root = Path(__file__).parents[4]
    ended = subprocess.run([sys.executable, "-c", program, str(root)], timeout=120, check=False)
    assert ended.returncode == 0


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("2,4", 2), ("", None), ("many", None)])
def test_as_many_threads_as_openmp_takes(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: int | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
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

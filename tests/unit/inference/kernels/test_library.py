"""The compiled kernels by themselves: packing, and what happens where they are missing."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from nextquery.inference.kernels import library
from nextquery.inference.kernels.library import Library, address, aligned, native_library


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


def test_where_they_are_missing_or_of_another_version_there_are_none(
    monkeypatch: pytest.MonkeyPatch, kernels: Library
) -> None:
    monkeypatch.setitem(sys.modules, "nextquery_native", None)
    assert native_library.__wrapped__() is None
    nowhere = SimpleNamespace(library_path=lambda: "/nowhere/kernels.so")
    monkeypatch.setitem(sys.modules, "nextquery_native", nowhere)
    assert native_library.__wrapped__() is None
    monkeypatch.undo()
    assert native_library.__wrapped__() is not None
    monkeypatch.setattr(library, "ABI", 99)
    assert native_library.__wrapped__() is None

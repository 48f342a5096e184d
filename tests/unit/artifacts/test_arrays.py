"""Arrays that do not fit together are refused, with their name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.artifacts import arrays, open_artifact, publish
from nextquery.errors import ArtifactError


def stored(folder: Path, content: bytes) -> Any:
    with publish(folder / "out", "data", {}) as partial:
        (partial / "a.npy").write_bytes(content)
    return arrays.load_array(open_artifact(folder / "out"), "a.npy", "i")


def saved(tmp_path: Path, values: Any) -> bytes:
    np.save(tmp_path / "a.npy", values)
    return (tmp_path / "a.npy").read_bytes()


def test_an_array_comes_back(tmp_path: Path) -> None:
    found = stored(tmp_path, saved(tmp_path, np.arange(5)))
    assert found.tolist() == [0, 1, 2, 3, 4]
    assert not found.flags.writeable


@pytest.mark.parametrize(
    "values",
    [np.zeros((2, 2), np.int64), np.array(3), np.array([1.5]), np.array(["a"]), np.array([True])],
)
def test_another_shape_or_type_is_refused(tmp_path: Path, values: Any) -> None:
    content = saved(tmp_path, values)
    with pytest.raises(ArtifactError, match=r"a\.npy"):
        stored(tmp_path, content)


HEADER = b"{'descr': '<i8', 'fortran_order': False, 'shape': (%s,), }"


def with_header(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no array",
        with_header(HEADER % b"-1"),
        with_header(HEADER % b"99999999999999999999"),
        with_header(HEADER % b"1000"),
        with_header(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
        with_header(b"{'descr': ("),
        with_header(b"[" * 5000),
        with_header(b"\xff" * 40),
        b"PK\x03\x04" + bytes(40),
    ],
)
def test_bytes_that_are_no_array_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"a\.npy"):
        stored(tmp_path, content)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (lambda a: arrays.check_length("x", a, 3), [1, 2, 3], [1, 2]),
        (lambda a: arrays.check_range("x", a, 3), [0, 2], [0, 3]),
        (lambda a: arrays.check_range("x", a, 3), [], [-1]),
        (lambda a: arrays.check_range("x", a, 3), [1], [1.0]),
        (lambda a: arrays.check_positive("x", a), [1, 2], [0]),
        (lambda a: arrays.check_positive("x", a), [0.5], [float("nan")]),
        (lambda a: arrays.check_offsets("x", a, 2, 5), [0, 2, 5], [0, 6, 5]),
        (lambda a: arrays.check_offsets("x", a, 2, 5), [0, 0, 5], [0, 2, 4]),
        (lambda a: arrays.check_offsets("x", a, 2, 5), [0, 5, 5], [1, 2, 5]),
        (lambda a: arrays.check_order("x", a, 3), [2, 0, 1], [2, 0, 0]),
    ],
)
def test_what_does_not_fit_is_named(
    check: Callable[[Any], None], good: list[float], bad: list[float]
) -> None:
    check(np.array(good, np.int64 if not good else None))
    with pytest.raises(ArtifactError, match="x"):
        check(np.array(bad))

"""Arrays of an artifact: mapped into memory, and checked against each other.

Knows NumPy's `.npy`, which cannot carry code here. The `check_...` functions raise an
`ArtifactError` that names the array; `Artifact.check_once` adds the folder.
"""

import mmap
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts.folder import Artifact
from nextquery.errors import ArtifactError

Numbers = NDArray[Any]
_LONGEST_HEADER = 1 << 12
_HEADER = re.compile(
    rb"\x93NUMPY(?:\x01.|[\x02\x03]...)..{'descr': '(?P<type>[<>|](?P<kind>[iuf])[1248])', "
    rb"'fortran_order': (?:False|True), 'shape': \((?P<length>\d{1,18}),\), } *\n",
    re.DOTALL,
)
"""What `numpy.save` writes before the values of an array of one dimension. NumPy's own reader
takes the header for a Python expression, in which there is more to go wrong."""


def load_array(artifact: Artifact, name: str, kinds: str = "iuf") -> Numbers:
    """The array `name` of one dimension, mapped into memory and read only when it is used.

    `kinds` are the letters of NumPy's `dtype.kind` that may be in it.
    """
    with artifact.open(name) as stream:
        header = _HEADER.match(stream.read(_LONGEST_HEADER))
        size = stream.seek(0, 2)
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    if header is None or header["kind"].decode() not in kinds:
        raise ArtifactError(f"{artifact.path / name}: not an array of the kind needed here")
    values, length, offset = np.dtype(header["type"].decode()), int(header["length"]), header.end()
    if size - offset != length * values.itemsize:
        raise ArtifactError(f"{artifact.path / name}: altered or truncated")
    # A plain array over mapped pages: indexing a `memmap` object costs several times more.
    return np.frombuffer(content, values, length, offset) if length else np.empty(0, values)


def check_length(name: str, values: Numbers, length: int) -> None:
    """There must be exactly `length` values.

    >>> check_length("counts", np.array([1, 2]), 2)
    """
    require(len(values) == length, f"{name} has {len(values)} values, not {length}")


def check_range(name: str, values: Numbers, size: int) -> None:
    """Every value must be a whole number from 0 to `size - 1`."""
    whole = values.dtype.kind in "iu"
    inside = whole and (not len(values) or (values.min() >= 0 and values.max() < size))
    require(bool(inside), f"{name} has a value that is no number below {size}")


def check_positive(name: str, values: Numbers) -> None:
    """Every value must be finite and above 0."""
    require(bool(np.isfinite(values).all() and (values > 0).all()), f"{name} has a value below 1")


def check_offsets(name: str, offsets: Numbers, rows: int, length: int) -> None:
    """Row `r` is `offsets[r]:offsets[r + 1]` of `length` values; the rows must share them all."""
    check_length(name, offsets, rows + 1)
    require(offsets.dtype.kind in "iu", f"{name} are no whole numbers")
    whole = offsets[0] == 0 and offsets[-1] == length and (offsets[1:] >= offsets[:-1]).all()
    require(bool(whole), f"{name} do not divide {length} values into rows")


def check_order(name: str, order: Numbers, size: int) -> None:
    """The values must be 0 to `size - 1`, each once."""
    check_length(name, order, size)
    check_range(name, order, size)
    require(bool(np.bincount(order, minlength=size).max(initial=0) <= 1), f"{name} repeats one")


def require(condition: bool, problem: str) -> None:
    """Refuse contents that do not fit together."""
    if not condition:
        raise ArtifactError(problem)

"""Arrays and tries of the count models: written plainly, read memory-mapped and checked.

A record of arrays is written as one file per field and read back in the order of its fields.
"""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import load_array
from nextquery.artifacts.tries import load_trie

__all__ = [
    "build_trie",
    "load_array",
    "load_record",
    "load_trie",
    "save_array",
    "save_record",
    "save_trie",
]

RecordT = TypeVar("RecordT")


def save_array(folder: Path, name: str, values: NDArray[Any]) -> None:
    """Write `values` as `name` in the folder."""
    np.save(folder / name, values, allow_pickle=False)


def save_record(folder: Path, name: str, record: Any) -> None:
    """Write every field of a dataclass of arrays as `name_FIELD.npy`."""
    for field in fields(record):
        save_array(folder, f"{name}_{field.name}.npy", getattr(record, field.name))


def load_record(artifact: Artifact, name: str, kind: type[RecordT]) -> RecordT:
    """The dataclass of arrays that `save_record` wrote."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(*(load_array(artifact, f"{name}_{field}.npy") for field in names))


def build_trie(keys: Iterable[str]) -> Any:
    """A trie over `keys`; it numbers them, and the numbers depend on the set of keys alone."""
    return marisa_trie.Trie(keys)


def save_trie(folder: Path, name: str, trie: Any) -> None:
    """Write a trie as `name` in the folder."""
    (folder / name).write_bytes(trie.tobytes())

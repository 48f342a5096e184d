"""Arrays and tries inside model folders: written plainly, read memory-mapped.

Knows NumPy's `.npy` and marisa's trie files, neither of which can carry code; knows nothing of what
they mean.
"""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.errors import ArtifactError

RecordT = TypeVar("RecordT")


def save_array(folder: Path, name: str, values: NDArray[Any]) -> None:
    """Write `values` as `name` in the folder."""
    np.save(folder / name, values, allow_pickle=False)


def load_array(artifact: Artifact, name: str) -> NDArray[Any]:
    """The array `name`, mapped into memory and read only when it is used."""
    path = artifact.file(name)
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: altered or truncated ({error}); fit it again") from None
    # Indexing a memmap object costs several times more than a plain view of it.
    plain: NDArray[Any] = mapped.view(np.ndarray)
    return plain


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


def load_trie(artifact: Artifact, name: str) -> Any:
    """The trie `name`, mapped into memory."""
    path = artifact.file(name)
    trie = marisa_trie.Trie()
    try:
        trie.mmap(str(path))
    except (OSError, RuntimeError) as error:
        raise ArtifactError(f"{path}: altered or truncated ({error}); fit it again") from None
    return trie

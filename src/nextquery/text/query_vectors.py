"""Vectors of whole queries that were made elsewhere: what the session encoder may be given as well.

A table of texts, known queries and single words, each with a vector. A query that the table lacks
has the mean of its words' vectors, and one without any known word the vector zero: so a model needs
no encoder to be served, and its folder names no code. Knows no model.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import ArtifactError, InputError
from nextquery.text.word_vectors import WordVectors, load_vectors, read_word_vectors

Floats = NDArray[np.float32]

SPREAD = 0.3
"""The root mean square of the numbers of a table: about that of a trained query vector."""


class QueryVectorTable:
    """The vectors of known texts, and from them those of any query.

    >>> known = WordVectors(("red", "boots", "red boots"), np.eye(3, dtype=np.float32))
    >>> QueryVectorTable(known).of(["red boots", "boots red", "blue"])
    array([[0. , 0. , 1. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 0. ]], dtype=float32)
    """

    def __init__(self, known: WordVectors) -> None:
        self._known = known
        self._rows = {text: row for row, text in enumerate(known.words)}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size(self) -> int:
        """Numbers per text."""
        return self._known.size

    def of(self, queries: Sequence[str]) -> Floats:
        """The vectors of normalised queries (queries, size)."""
        found = np.zeros((len(queries), self.size), dtype=np.float32)
        for place, query in enumerate(queries):
            row = self._rows.get(query)
            if row is not None:
                found[place] = self._known.vectors[row]
                continue
            rows = [self._rows[word] for word in query.split() if word in self._rows]
            if rows:
                found[place] = self._known.vectors[rows].mean(axis=0)
        return found

    def save(self, path: Path) -> None:
        """Write the table as a safetensors file."""
        self._known.save(path)


def begin_table(path: Path, wanted: Collection[str], size: int) -> QueryVectorTable:
    """The table of a model to be trained: the wanted texts of a file of vectors, brought to `size`.

    They are turned to their principal components and scaled to `SPREAD`.
    """
    found = read_word_vectors(path, wanted).reduced(size)
    if found.size < size:
        raise InputError(
            f"{path}: has {found.size} numbers per text; `model.query_vectors` asks for {size}"
        )
    scale = SPREAD / max(float(np.sqrt((found.vectors**2).mean())), 1e-12)
    return QueryVectorTable(WordVectors(found.words, found.vectors * np.float32(scale)))


def load_table(path: Path, size: int, shown: Path) -> QueryVectorTable:
    """The table of a model folder, which must have `size` numbers per text.

    `shown` is what messages call the file.
    """
    try:
        found = load_vectors(path)
    except InputError as error:
        raise ArtifactError(f"{shown}: cannot be read ({error})") from None
    if found.size != size:
        raise ArtifactError(f"{shown}: its vectors do not fit the configuration beside it")
    return QueryVectorTable(found)

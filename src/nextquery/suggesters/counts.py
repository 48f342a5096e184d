"""Storage of count models: arrays and tries, and follower tables."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, TypeVar

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import (
    check_length,
    check_offsets,
    check_positive,
    check_range,
    load_array,
    load_trie,
    require,
)

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


@dataclass(frozen=True)
class Followers:
    """Row `r` is `offsets[r]:offsets[r + 1]` of the other three arrays."""

    offsets: NDArray[np.int64]
    next: NDArray[np.int32]
    """The followers of each row, ascending."""
    counts: NDArray[Any]
    """Whole numbers, or, where old observations weigh less, fractions."""
    best: NDArray[np.int32]
    """The places within the row, most frequent follower first."""
    totals: NDArray[Any]
    """The sum of the counts of each row."""

    @classmethod
    def from_counts(
        cls,
        rows: NDArray[Any],
        following: NDArray[Any],
        counts: NDArray[Any],
        size: int,
        rank: NDArray[Any],
    ) -> Self:
        """Sort triples of row, follower and count into a table of `size` rows.

        `rank[follower]` breaks ties between equal counts, lowest first.
        """
        by_follower = np.lexsort((following, rows))
        rows, following, counts = rows[by_follower], following[by_follower], counts[by_follower]
        offsets = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=size), out=offsets[1:])
        is_integer = counts.dtype.kind in "iu"
        kept = counts.astype(np.int64 if is_integer else np.float64)
        by_count = np.lexsort((rank[following], -kept, rows))
        best = by_count - offsets[rows]
        totals = np.bincount(rows, kept, size).astype(kept.dtype)
        return cls(
            offsets,
            following.astype(np.int32),
            kept.astype(np.int32) if is_integer else kept,
            best.astype(np.int32),
            totals,
        )

    def __len__(self) -> int:
        return len(self.totals)

    def total(self, row: int) -> float:
        """How often anything followed."""
        return float(self.totals[row])

    def size(self, row: int) -> int:
        """How many different followers a row has."""
        return int(self.offsets[row + 1] - self.offsets[row])

    def most_frequent(self, row: int, limit: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """The `limit` most frequent followers of a row and their counts."""
        start = self.offsets[row]
        indices = start + self.best[start : start + min(self.size(row), limit)]
        return self.next[indices], self.counts[indices]

    def count(self, row: int, following: NDArray[Any]) -> NDArray[Any]:
        """How often each of `following` followed."""
        start, stop = self.offsets[row], self.offsets[row + 1]
        present = self.next[start:stop]
        # Of the same type, or NumPy converts the whole row first.
        following = following.astype(np.int32)
        indices = np.searchsorted(present, following)
        counts = np.zeros(len(following), self.totals.dtype)
        inside = indices < len(present)
        matching = np.flatnonzero(inside)[present[indices[inside]] == following[inside]]
        counts[matching] = self.counts[start + indices[matching]]
        return counts

    def save(self, folder: Path) -> None:
        """Write the arrays into a model folder."""
        save_record(folder, "followers", self)

    @classmethod
    def load(cls, artifact: Artifact) -> Self:
        """Map what `save` wrote."""
        return load_record(artifact, "followers", cls)

    def check(self, rows: int, symbols: int) -> None:
        """Refuse arrays that are not those of `rows` rows over `symbols` followers."""
        length = len(self.next)
        check_offsets("followers_offsets", self.offsets, rows, length)
        for name, values in (("counts", self.counts), ("best", self.best)):
            check_length(f"followers_{name}", values, length)
        check_length("followers_totals", self.totals, rows)
        check_range("followers_next", self.next, symbols)
        check_positive("followers_counts", self.counts)
        sizes = np.diff(self.offsets)
        check_range("followers_best", self.best, int(sizes.max(initial=0)))
        require(bool((self.best < np.repeat(sizes, sizes)).all()), "followers_best leaves its row")
        of_rows = np.repeat(np.arange(rows), sizes)
        ascending = (np.diff(self.next.astype(np.int64)) > 0) | (np.diff(of_rows) > 0)
        require(bool(ascending.all()), "followers_next is out of order")
        sums = np.bincount(of_rows, self.counts, rows)
        fits = len(sums) == len(self.totals) and np.allclose(sums, self.totals, 1e-9, 0)
        require(bool(fits), "followers_totals are not the sums of the rows")

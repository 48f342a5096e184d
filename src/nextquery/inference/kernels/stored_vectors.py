"""Word vectors that stay in the model file: rows are read when asked for, some are kept.

A mapped file would seem to do the same, but the system maps sixteen pages around each one that is
touched: after some thousand words the whole matrix counts as memory of the process. Here it cannot
exceed `KEPT_BYTES` a matrix. Knows files and rows of numbers; nothing of what they mean.
"""

import json
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from nextquery.errors import ArtifactError
from nextquery.inference.kernels.memory import own_pages, page_out

KEPT_BYTES = 5 << 20
"""Of each matrix: 4,300 words of the paper's size."""


class StoredVectors(nn.Embedding):
    """An embedding that is never written to, its rows in a safetensors file; safe in threads."""

    def __init__(self, mapped: nn.Embedding, file: Path, name: str) -> None:
        words, size = mapped.weight.shape
        super().__init__(words, size, mapped.padding_idx, _weight=mapped.weight)
        self._file = file
        self._descriptor = os.open(file, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._first = _first_byte(file, name)
        self._width = size * mapped.weight.element_size()
        kept = max(1, min(words, KEPT_BYTES // self._width))
        self._kept = torch.empty((kept, size), dtype=mapped.weight.dtype)
        self._bytes = self._kept.numpy().data.cast("B")
        self._used = 0
        self._places: NDArray[np.int64] = np.full(words, -1)  # of each word among the kept
        self._lock = threading.Lock()

    def forward(self, words: Tensor) -> Tensor:
        """The vectors (..., size) of word ids (...)."""
        ids = words.numpy().ravel()
        with self._lock:
            if not self._keep(ids):
                rows = super().forward(words)
                page_out(self.weight)
                return rows
            places = torch.from_numpy(self._places[ids])
            return functional.embedding(places, self._kept).view(*words.shape, self.embedding_dim)

    def blocks(self, rows: int, whole: int) -> Iterator[Tensor]:
        """What the function `blocks` gives, read without being kept or mapped."""
        for start in range(0, self.num_embeddings, rows):
            count = min(rows, self.num_embeddings - start)
            block = own_pages((count + -count % whole) * self.embedding_dim)
            self._read(start, block.numpy().data.cast("B")[: count * self._width])
            yield block.view(-1, self.embedding_dim)

    def _keep(self, ids: NDArray[np.int64]) -> bool:
        """Have the rows of all `ids` among the kept ones; False if they are too many."""
        missing = np.unique(ids[self._places[ids] < 0])
        if self._used + len(missing) > len(self._kept):
            missing = np.unique(ids)
            if len(missing) > len(self._kept):
                return False
            self._places.fill(-1)  # start anew: simpler than to find out which are old
            self._used = 0
        for word in missing.tolist():
            place = self._used * self._width
            self._read(word, self._bytes[place : place + self._width])
            self._places[word] = self._used
            self._used += 1
        return True

    def _read(self, row: int, target: memoryview) -> None:
        """Fill `target` with the rows from `row` on."""
        place = self._first + row * self._width
        if os.preadv(self._descriptor, [target], place) != len(target):
            raise ArtifactError(f"{self._file}: shorter than when it was opened; make it again")


def leave_on_disk(model: nn.Module, file: Path) -> None:
    """Have every embedding of a model that is only served read its rows from the weights file."""
    stored: dict[int, StoredVectors] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if not isinstance(module, nn.Embedding):
            continue
        if id(module) not in stored:
            stored[id(module)] = StoredVectors(module, file, f"{name}.weight")
        parent, _, own_name = name.rpartition(".")
        setattr(model.get_submodule(parent), own_name, stored[id(module)])


def blocks(vectors: nn.Embedding, rows: int, whole: int) -> Iterator[Tensor]:
    """All rows of an embedding in order, `rows` at a time, without bringing all into memory.

    The last block is filled with zeros up to a multiple of `whole` rows.
    """
    if isinstance(vectors, StoredVectors):
        yield from vectors.blocks(rows, whole)
        return
    for block in torch.split(vectors.weight.detach(), rows):
        yield functional.pad(block, (0, 0, 0, -len(block) % whole)) if len(block) % whole else block


def _first_byte(file: Path, name: str) -> int:
    """Where a tensor begins in a safetensors file: a length, a JSON header, then the numbers."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    return 8 + length + int(header[name]["data_offsets"][0])

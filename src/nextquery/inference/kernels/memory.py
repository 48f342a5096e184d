"""Numbers that decoding keeps in memory, and those that it lets the system take back.

Knows tensors of this package only; settings of the whole process are in `process_memory.py`.
"""

import mmap
import weakref
from contextlib import suppress

import torch
from torch import Tensor

from nextquery.inference.kernels.process_memory import advise

_MADV_PAGEOUT = 21

MOST_LOGITS = 7 << 20
"""Scores over the vocabulary that are held at one time: 28 MB, within the largest block."""


class BufferPool:
    """Numbers that are used again and again: the allocator would take two or three such blocks.

    It puts small things into the hole that a large block leaves, so that the next large block
    needs new memory.
    """

    def __init__(self) -> None:
        self._free: list[Tensor] = []

    def take(self, size: int) -> Tensor:
        """At least `size` numbers of any value."""
        try:
            numbers = self._free.pop()
        except IndexError:
            return own_pages(size)
        return numbers if len(numbers) >= size else own_pages(size)

    def lend(self, numbers: Tensor, borrower: object) -> None:
        """Take `numbers` back when `borrower`, who alone uses them, is gone."""
        weakref.finalize(borrower, self._free.append, numbers)


def own_pages(size: int) -> Tensor:
    """`size` 32-bit zeros outside the allocator's heap, where they would leave a hole."""
    memory = mmap.mmap(-1, 4 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):  # not every system has large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.float32)


def page_out(tensor: Tensor) -> bool:
    """Let the system take a tensor's pages back; those of a mapped file return when read.

    For matrices that were packed and are seldom read after. Linux only; no data is ever lost.
    """
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (tensor.data_ptr() + tensor.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    return size > 0 and advise(first, size, _MADV_PAGEOUT)

"""Memory that a serving process keeps, and memory that it gives back.

Every decoding step frees tens of megabytes and asks for them again. glibc gives blocks of that size
back to the system at once, and getting them anew costs a page fault per 4 KB: 12 to 20% of the time
of a suggestion at the paper's size. What only starting up needed is given back once. Elsewhere than
on Linux and glibc this does nothing.
"""

import ctypes
import mmap
import re
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MADV_DONTNEED = 4
_MADV_PAGEOUT = 21
_CODE = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d* +/.*\n((?:\w+:.*\n)+)", re.MULTILINE
)
_LARGEST_BLOCK = 32 << 20
_KEPT = 128 << 20

MOST_LOGITS = 7 << 20
"""Scores over the vocabulary that are held at one time: 28 MB, within the largest block."""


@cache
def keep_freed_memory() -> bool:
    """Have the allocator keep up to 128 MB of what is freed; whether it could be told."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK) and mallopt(_M_TRIM_THRESHOLD, _KEPT)
    return bool(kept)


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
    return size > 0 and _advise(first, size, _MADV_PAGEOUT)


def give_back() -> None:
    """Return what starting up and packing used and serving does not: freed memory, and code.

    Importing PyTorch runs 60 MB of its code that is not run again. Pages of code are those of
    files that cannot be written to and hold nothing of this process: what is needed of them comes
    back from the system's own copy at the next call, in microseconds.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        mappings = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except (OSError, AttributeError):
        return
    for start, stop in _unwritten_code(mappings):
        _advise(start, stop - start, _MADV_DONTNEED)


def _unwritten_code(mappings: str) -> Iterator[tuple[int, int]]:
    """The address ranges of `/proc/self/smaps` that hold a file's code and nothing else."""
    for found in _CODE.finditer(mappings):
        if "\nAnonymous:             0 kB\n" in found[3]:
            yield int(found[1], 16), int(found[2], 16)


def _advise(first: int, size: int, advice: int) -> bool:
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return False
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return bool(madvise(first, size, advice) == 0)

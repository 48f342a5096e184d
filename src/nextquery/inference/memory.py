"""Memory that a serving process keeps, and memory that it gives back.

Every decoding step frees tens of megabytes and asks for them again. glibc gives blocks of that size
back to the system at once, and getting them anew costs a page fault per 4 KB: 12 to 20% of the time
of a suggestion at the paper's size. Elsewhere than on glibc this does nothing.
"""

import ctypes
import mmap
from functools import cache

from torch import Tensor

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MADV_PAGEOUT = 21
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


def page_out(tensor: Tensor) -> bool:
    """Let the system take a tensor's pages back; those of a mapped file return when read.

    For matrices that were packed and are seldom read after. Linux only; no data is ever lost.
    """
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (tensor.data_ptr() + tensor.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return False
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return size > 0 and madvise(first, size, _MADV_PAGEOUT) == 0
